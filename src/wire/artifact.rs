//! Artifacts and assets (docs/spec/http-api.md 2.5, 2.7 and 2.8).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{as_text, as_timestamp};
use crate::model::digest::Digest;
use crate::model::id::ArtifactId;
use crate::model::name::{ArtifactName, AssetPath, Repository};

/// What an upload is said to hold, and an artifact holds.
#[derive(Clone, Debug, Serialize)]
pub struct Descriptor {
    /// File name.
    pub name: ArtifactName,
    /// Bytes.
    #[serde(serialize_with = "as_text")]
    pub size: u64,
    /// Digest of the bytes.
    #[serde(serialize_with = "as_text")]
    pub sha256: Digest,
    /// Sorted, each once.
    pub labels: Vec<String>,
    /// Free key-value pairs.
    pub metadata: BTreeMap<String, String>,
}

/// An upload, or the artifact that it became.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    /// Also the artifact's id.
    pub id: ArtifactId,
    /// Where it belongs.
    pub repository: Repository,
    /// `pending`, `available` or `cancelled`.
    pub status: String,
    /// When the upload began.
    #[serde(serialize_with = "as_timestamp")]
    pub created_at: OffsetDateTime,
    /// When a pending upload ends.
    #[serde(serialize_with = "as_timestamp")]
    pub expires_at: OffsetDateTime,
    /// What it holds.
    pub descriptor: Descriptor,
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Pass back as `after`; `None` at the end.
    pub next: Option<String>,
}

/// The current revision of a path.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asset {
    /// Path in the repository.
    pub path: AssetPath,
    /// From 1, one more with each change.
    pub revision: i32,
    /// What the path holds.
    pub artifact_id: ArtifactId,
}

/// One entry of a path's history.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssetRevision {
    /// Path in the repository.
    pub path: AssetPath,
    /// From 1.
    pub revision: i32,
    /// What the path held.
    pub artifact_id: ArtifactId,
    /// When it began to.
    #[serde(serialize_with = "as_timestamp")]
    pub created_at: OffsetDateTime,
    /// Who published it.
    pub created_by: String,
}

/// Answer to `PUT R/raw/{path}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawPut {
    /// Path in the repository.
    pub path: String,
    /// The path's revision now.
    pub revision: i32,
    /// Whether this request added it; false when the path held these bytes already.
    pub created: bool,
    /// What the path holds.
    pub artifact: RawArtifact,
}

/// The artifact behind a path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawArtifact {
    /// Its id.
    pub id: String,
    /// Bytes, as a decimal.
    pub size: String,
    /// Digest of the bytes.
    pub sha256: String,
}
