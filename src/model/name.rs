//! Names and paths that users choose. A value of these types can't hold bad text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::digest::Digest;

/// The longest path, in characters (docs/spec/http-api.md 2.7).
pub const LONGEST_PATH: usize = 1024;
/// The longest name of an artifact, in characters (docs/spec/http-api.md 2.5).
pub const LONGEST_NAME: usize = 240;

/// Text that is no name of its kind. The message says what the kind allows and never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Not a repository name.
    #[error("a repository name has 1 to 64 of a-z, 0-9, _ and -, the first a letter or digit")]
    Repository,
    /// Not an artifact name.
    #[error("an artifact name has 1 to 240 characters, none of them / \\ or a control character, and is not . or ..")]
    Artifact,
    /// Not an asset path.
    #[error(
        "a path has 1 to 1024 characters in segments split by /, none of them empty, . or .., without \\, : or control characters"
    )]
    Path,
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }
    };
}

text_type! {
    /// The name of a repository (docs/spec/http-api.md 2.1).
    Repository
}
text_type! {
    /// The name of an artifact: one file name (docs/spec/http-api.md 2.5).
    ArtifactName
}
text_type! {
    /// The path of an asset in its repository (docs/spec/http-api.md 2.7).
    AssetPath
}

impl FromStr for Repository {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let head = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let tail = |c: u8| head(c) || c == b'_' || c == b'-';
        match text.as_bytes() {
            [first, rest @ ..] if rest.len() < 64 && head(*first) && rest.iter().copied().all(tail) => {
                Ok(Self(text.into()))
            }
            _ => Err(BadName::Repository),
        }
    }
}

impl FromStr for ArtifactName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let fits = (1..=LONGEST_NAME).contains(&text.chars().take(LONGEST_NAME + 1).count());
        let plain = !text.contains(['/', '\\']) && !text.contains(char::is_control);
        if fits && plain && text != "." && text != ".." {
            Ok(Self(text.into()))
        } else {
            Err(BadName::Artifact)
        }
    }
}

impl FromStr for AssetPath {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let fits = (1..=LONGEST_PATH).contains(&text.chars().take(LONGEST_PATH + 1).count());
        let plain = !text.contains(['\\', ':']) && !text.contains(char::is_control);
        let segments = text.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
        if fits && plain && segments {
            Ok(Self(text.into()))
        } else {
            Err(BadName::Path)
        }
    }
}

impl AssetPath {
    /// Decodes the percent-encoded rest of a request's path.
    ///
    /// Each segment is decoded by itself, so that an encoded `/` can't make two segments of one.
    pub fn from_encoded(encoded: &str) -> Result<Self, BadName> {
        let mut path = String::with_capacity(encoded.len());
        for (i, segment) in encoded.split('/').enumerate() {
            if i > 0 {
                path.push('/');
            }
            if !is_well_encoded(segment) {
                return Err(BadName::Path);
            }
            let segment = percent_encoding::percent_decode_str(segment)
                .decode_utf8()
                .map_err(|_| BadName::Path)?;
            if segment.contains('/') {
                return Err(BadName::Path);
            }
            path.push_str(&segment);
        }
        path.parse()
    }

    /// What an index finds the path by: the digest of its text, as the text can be longer than an index entry.
    pub fn key(&self) -> [u8; 32] {
        *Digest::of(self.as_str()).as_bytes()
    }

    /// The last segment, as the name of the artifact behind the path. A longer one keeps its end, which tells the type.
    pub fn file_name(&self) -> ArtifactName {
        let last = self.0.rsplit('/').next().unwrap_or_default();
        let surplus = last.chars().count().saturating_sub(LONGEST_NAME);
        ArtifactName(last.chars().skip(surplus).collect::<String>().into())
    }
}

/// Whether each `%` begins an encoded byte.
fn is_well_encoded(segment: &str) -> bool {
    let mut parts = segment.split('%');
    parts.next();
    parts.all(|part| {
        part.as_bytes()
            .get(..2)
            .is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn repositories() {
        for good in ["a", "0", "releases", "a_b-c", &"x".repeat(64)] {
            assert!(good.parse::<Repository>().is_ok(), "{good}");
        }
        for bad in ["", "_a", "-a", "A", "a.b", "a/b", "ä", &"x".repeat(65)] {
            assert_eq!(bad.parse::<Repository>(), Err(BadName::Repository), "{bad}");
        }
    }

    #[test]
    fn artifact_names() {
        for good in ["a", "a..b", "...", "v1.0 (final).tar.gz", &"ü".repeat(240)] {
            assert!(good.parse::<ArtifactName>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a\\b", "a\nb", "a\u{85}b", &"ü".repeat(241)] {
            assert_eq!(bad.parse::<ArtifactName>(), Err(BadName::Artifact), "{bad:?}");
        }
    }

    #[test]
    fn paths() {
        for good in ["a", "a/b", "a..b/..c", "v1.0/x", &"ü".repeat(1024)] {
            assert!(good.parse::<AssetPath>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "/a",
            "a/",
            "a//b",
            "./a",
            "a/..",
            "..",
            "C:/b",
            "a\\b",
            "a\0",
            &"ü".repeat(1025),
        ] {
            assert_eq!(bad.parse::<AssetPath>(), Err(BadName::Path), "{bad:?}");
        }
    }

    #[test]
    fn encoded_paths() {
        assert_eq!(AssetPath::from_encoded("a%20b/v1%2E0").unwrap().as_str(), "a b/v1.0");
        for bad in [
            "a%zz", "a%2", "%", "C%3A/b", "a%5Cb", "a%2Fb", "%2e%2e/a", "a/%2E", "a%00", "%ff", "a//b",
        ] {
            assert_eq!(AssetPath::from_encoded(bad), Err(BadName::Path), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leaves_its_repository(text in "[a./\\\\:%2eEfF5cC]{0,12}") {
            if let Ok(path) = AssetPath::from_encoded(&text) {
                prop_assert!(path.as_str().split('/').all(|s| !s.is_empty() && s != "." && s != ".."));
                prop_assert!(!path.as_str().contains(['\\', ':', '\0']));
            }
        }

        #[test]
        fn any_path_has_a_file_name(text in "\\PC{0,1100}") {
            if let Ok(path) = text.parse::<AssetPath>() {
                prop_assert!(path.file_name().as_str().parse::<ArtifactName>().is_ok());
            }
        }
    }
}
