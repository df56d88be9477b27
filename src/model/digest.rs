//! SHA-256 of contents: what clients verify, what entity tags are made of.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 digest is 64 hexadecimal digits")]
pub struct BadDigest;

impl Digest {
    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of `content`.
    pub fn of(content: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Accepts upper-case digits too, as `X-Checksum-Sha256` may have them (docs/spec/http-api.md 2.7).
    pub fn parse_any_case(text: &str) -> Result<Self, BadDigest> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return Err(BadDigest);
        }
        let digit = |c: u8| {
            (c as char)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
                .ok_or(BadDigest)
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl FromStr for Digest {
    type Err = BadDigest;

    /// Lower-case digits only: the canonical form of the API.
    fn from_str(text: &str) -> Result<Self, BadDigest> {
        if text.bytes().any(|c| c.is_ascii_uppercase()) {
            return Err(BadDigest);
        }
        Self::parse_any_case(text)
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = BadDigest;

    fn try_from(bytes: &[u8]) -> Result<Self, BadDigest> {
        bytes.try_into().map(Self).map_err(|_| BadDigest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a digest while bytes stream past.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was taken.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn known_value() {
        assert_eq!(Digest::of("abc").to_string(), ABC);
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), ABC.parse().unwrap());
    }

    #[test]
    fn only_the_header_may_have_upper_case() {
        assert_eq!(ABC.to_uppercase().parse::<Digest>(), Err(BadDigest));
        assert_eq!(Digest::parse_any_case(&ABC.to_uppercase()), Ok(Digest::of("abc")));
    }

    proptest! {
        #[test]
        fn text_and_back(bytes: [u8; 32]) {
            let digest = Digest::from_bytes(bytes);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
        }

        #[test]
        fn other_text_is_refused(text in "\\PC{0,80}") {
            let plain = text.len() == 64 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            prop_assert_eq!(text.parse::<Digest>().is_ok(), plain);
        }
    }
}
