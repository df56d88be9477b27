//! Identifiers: UUID version 4 in lower case (docs/spec/http-api.md 2.1).

use std::fmt;
use std::str::FromStr;

use uuid::{Uuid, Variant};

/// Names an upload, and the artifact that it becomes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct ArtifactId(Uuid);

/// The text is not a lower-case UUID version 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is a lower-case UUID version 4")]
pub struct BadId;

impl ArtifactId {
    /// A new random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id as a database value.
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }

    /// An id that the database returned.
    pub const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }
}

impl FromStr for ArtifactId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let id = Uuid::try_parse(text).map_err(|_| BadId)?;
        let canonical = id.get_version_num() == 4 && id.get_variant() == Variant::RFC4122;
        // Comparing the text refuses upper case, braces, `urn:` and missing hyphens in one go.
        if canonical && id.hyphenated().to_string() == text {
            Ok(Self(id))
        } else {
            Err(BadId)
        }
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form() {
        let good = "0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11";
        assert_eq!(good.parse::<ArtifactId>().unwrap().to_string(), good);
        for bad in [
            "",
            "0B4F7A52-6A0F-4C1E-9D3A-2F4F6F1F0A11",
            "0b4f7a526a0f4c1e9d3a2f4f6f1f0a11",
            "{0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11}",
            "0b4f7a52-6a0f-1c1e-9d3a-2f4f6f1f0a11",
            "0b4f7a52-6a0f-4c1e-7d3a-2f4f6f1f0a11",
            "0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11 ",
        ] {
            assert_eq!(bad.parse::<ArtifactId>(), Err(BadId), "{bad}");
        }
        assert!(ArtifactId::random().to_string().parse::<ArtifactId>().is_ok());
    }
}
