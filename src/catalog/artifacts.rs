//! Published artifacts, as readers of bytes and lists see them.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Error;
use crate::model::digest::Digest;
use crate::model::id::ArtifactId;
use crate::model::name::{ArtifactName, AssetPath, Repository};

/// All that serving the bytes of an artifact needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Names the blob.
    pub id: ArtifactId,
    /// File name for the client.
    pub name: ArtifactName,
    /// Bytes.
    pub size: u64,
    /// Entity tag.
    pub digest: Digest,
}

/// A published artifact.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its bytes.
    pub content: Content,
    /// Where it belongs.
    pub repository: Repository,
    /// When its upload began.
    pub created_at: OffsetDateTime,
    /// When its upload would have ended.
    pub expires_at: OffsetDateTime,
    /// Sorted, each once.
    pub labels: Vec<String>,
    /// Free key-value pairs.
    pub metadata: BTreeMap<String, String>,
}

struct ContentRow {
    id: Uuid,
    name: String,
    size: i64,
    sha256: Vec<u8>,
}

impl TryFrom<ContentRow> for Content {
    type Error = Error;

    fn try_from(row: ContentRow) -> Result<Self, Error> {
        let broken = |column| Error::Inconsistent {
            table: "arkvory_uploads",
            column,
        };
        Ok(Self {
            id: ArtifactId::from_uuid(row.id),
            name: row.name.parse().map_err(|_| broken("name"))?,
            size: u64::try_from(row.size).map_err(|_| broken("size"))?,
            digest: Digest::try_from(row.sha256.as_slice()).map_err(|_| broken("sha256"))?,
        })
    }
}

/// The bytes of a published artifact.
pub async fn content(db: &mut PgConnection, repository: &Repository, id: ArtifactId) -> Result<Option<Content>, Error> {
    sqlx::query_as!(
        ContentRow,
        "SELECT id, name, size, sha256 FROM arkvory_uploads
         WHERE id = $1 AND repository = $2 AND status = 'available'",
        id.as_uuid(),
        repository.as_str(),
    )
    .fetch_optional(db)
    .await?
    .map(Content::try_from)
    .transpose()
}

/// The bytes that a path holds now.
pub async fn content_at(
    db: &mut PgConnection,
    repository: &Repository,
    path: &AssetPath,
) -> Result<Option<Content>, Error> {
    sqlx::query_as!(
        ContentRow,
        "SELECT u.id, u.name, u.size, u.sha256
         FROM arkvory_assets a JOIN arkvory_uploads u ON u.id = a.artifact_id
         WHERE a.repository = $1 AND a.path_sha256 = $2 AND u.status = 'available'",
        repository.as_str(),
        &path.key(),
    )
    .fetch_optional(db)
    .await?
    .map(Content::try_from)
    .transpose()
}

struct ArtifactRow {
    id: Uuid,
    name: String,
    size: i64,
    sha256: Vec<u8>,
    created_at: OffsetDateTime,
    expires_at: OffsetDateTime,
    labels: Json<Vec<String>>,
    metadata: Json<BTreeMap<String, String>>,
}

impl ArtifactRow {
    fn into_artifact(self, repository: &Repository) -> Result<Artifact, Error> {
        Ok(Artifact {
            content: ContentRow {
                id: self.id,
                name: self.name,
                size: self.size,
                sha256: self.sha256,
            }
            .try_into()?,
            repository: repository.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
            labels: self.labels.0,
            metadata: self.metadata.0,
        })
    }
}

/// A published artifact with all that is known of it.
pub async fn find(db: &mut PgConnection, repository: &Repository, id: ArtifactId) -> Result<Option<Artifact>, Error> {
    sqlx::query_as!(
        ArtifactRow,
        r#"SELECT id, name, size, sha256, created_at, expires_at,
                  labels AS "labels: Json<Vec<String>>", metadata AS "metadata: Json<BTreeMap<String, String>>"
           FROM arkvory_uploads WHERE id = $1 AND repository = $2 AND status = 'available'"#,
        id.as_uuid(),
        repository.as_str(),
    )
    .fetch_optional(db)
    .await?
    .map(|row| row.into_artifact(repository))
    .transpose()
}

/// At most `limit` published artifacts with ids above `after`, in the order of their ids.
pub async fn list(
    db: &mut PgConnection,
    repository: &Repository,
    after: Option<ArtifactId>,
    limit: u32,
) -> Result<Vec<Artifact>, Error> {
    sqlx::query_as!(
        ArtifactRow,
        r#"SELECT id, name, size, sha256, created_at, expires_at,
                  labels AS "labels: Json<Vec<String>>", metadata AS "metadata: Json<BTreeMap<String, String>>"
           FROM arkvory_uploads
           WHERE repository = $1 AND status = 'available' AND id > $2
           ORDER BY id LIMIT $3"#,
        repository.as_str(),
        after.map_or(Uuid::nil(), ArtifactId::as_uuid),
        i64::from(limit),
    )
    .fetch_all(db)
    .await?
    .into_iter()
    .map(|row| row.into_artifact(repository))
    .collect()
}
