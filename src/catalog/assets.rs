//! Paths and their revisions (docs/spec/http-api.md 2.7 and 2.8).

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Error;
use crate::model::digest::Digest;
use crate::model::id::ArtifactId;
use crate::model::name::{AssetPath, Repository};
use crate::model::principal::PrincipalId;

/// What a path holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// The path.
    pub path: AssetPath,
    /// From 1, one more with each change.
    pub revision: i32,
    /// What it holds.
    pub artifact: ArtifactId,
}

/// What a path holds now, with the measures of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// From 1.
    pub revision: i32,
    /// What it holds.
    pub artifact: ArtifactId,
    /// Bytes.
    pub size: u64,
    /// Digest of the bytes.
    pub digest: Digest,
}

/// One entry of a path's history.
#[derive(Clone, Debug)]
pub struct Revision {
    /// From 1.
    pub revision: i32,
    /// What the path held.
    pub artifact: ArtifactId,
    /// Since when.
    pub created_at: OffsetDateTime,
    /// Who published it.
    pub created_by: String,
}

struct Row {
    path: String,
    revision: i32,
    artifact_id: Uuid,
}

impl TryFrom<Row> for Asset {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        Ok(Self {
            path: row.path.parse().map_err(|_| Error::Inconsistent {
                table: "arkvory_assets",
                column: "path",
            })?,
            revision: row.revision,
            artifact: ArtifactId::from_uuid(row.artifact_id),
        })
    }
}

/// The current revision of a path.
pub async fn find(db: &mut PgConnection, repository: &Repository, path: &AssetPath) -> Result<Option<Asset>, Error> {
    sqlx::query_as!(
        Row,
        "SELECT path, revision, artifact_id FROM arkvory_assets WHERE repository = $1 AND path_sha256 = $2",
        repository.as_str(),
        &path.key(),
    )
    .fetch_optional(db)
    .await?
    .map(Asset::try_from)
    .transpose()
}

/// The current revision of a path, with the measures of its bytes.
pub async fn current(
    db: &mut PgConnection,
    repository: &Repository,
    path: &AssetPath,
) -> Result<Option<Current>, Error> {
    let row = sqlx::query!(
        "SELECT a.revision, a.artifact_id, u.size, u.sha256
         FROM arkvory_assets a JOIN arkvory_uploads u ON u.id = a.artifact_id
         WHERE a.repository = $1 AND a.path_sha256 = $2",
        repository.as_str(),
        &path.key(),
    )
    .fetch_optional(db)
    .await?;
    let broken = |column| Error::Inconsistent {
        table: "arkvory_uploads",
        column,
    };
    row.map(|row| {
        Ok(Current {
            revision: row.revision,
            artifact: ArtifactId::from_uuid(row.artifact_id),
            size: u64::try_from(row.size).map_err(|_| broken("size"))?,
            digest: Digest::try_from(row.sha256.as_slice()).map_err(|_| broken("sha256"))?,
        })
    })
    .transpose()
}

/// Adds a revision to a path, if its current one is still `seen` (`None` = the path is not there yet). Returns the new
/// revision, `None` if somebody was faster. Needs a transaction.
pub async fn advance(
    db: &mut PgConnection,
    repository: &Repository,
    path: &AssetPath,
    seen: Option<i32>,
    artifact: ArtifactId,
    by: &PrincipalId,
) -> Result<Option<i32>, Error> {
    let row = match seen {
        None => sqlx::query!(
            "INSERT INTO arkvory_assets (repository, path, path_sha256, revision, artifact_id)
             VALUES ($1, $2, $3, 1, $4) ON CONFLICT (repository, path_sha256) DO NOTHING RETURNING id, revision",
            repository.as_str(),
            path.as_str(),
            &path.key(),
            artifact.as_uuid(),
        )
        .fetch_optional(&mut *db)
        .await?
        .map(|row| (row.id, row.revision)),
        Some(seen) => sqlx::query!(
            "UPDATE arkvory_assets SET revision = revision + 1, artifact_id = $4
             WHERE repository = $1 AND path_sha256 = $2 AND revision = $3 RETURNING id, revision",
            repository.as_str(),
            &path.key(),
            seen,
            artifact.as_uuid(),
        )
        .fetch_optional(&mut *db)
        .await?
        .map(|row| (row.id, row.revision)),
    };
    let Some((asset, revision)) = row else { return Ok(None) };
    sqlx::query!(
        "INSERT INTO arkvory_asset_revisions (asset_id, revision, artifact_id, created_by) VALUES ($1, $2, $3, $4)",
        asset,
        revision,
        artifact.as_uuid(),
        by.as_str(),
    )
    .execute(db)
    .await?;
    Ok(Some(revision))
}

/// At most `limit` paths that begin with `prefix` and come behind `after`, in the byte order of UTF-8.
///
/// The index holds the first 512 characters; the conditions on `left(path, 512)` say the same in its terms.
pub async fn page(
    db: &mut PgConnection,
    repository: &Repository,
    prefix: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Asset>, Error> {
    sqlx::query_as!(
        Row,
        r#"SELECT path, revision, artifact_id FROM arkvory_assets
           WHERE repository = $1
             AND left(path, 512) COLLATE "C" >= left(GREATEST($2 COLLATE "C", $3 COLLATE "C"), 512)
             AND starts_with(path, $2)
             AND path > $3 COLLATE "C"
             AND ($4::text IS NULL OR left(path, 512) COLLATE "C" < $4 COLLATE "C")
           ORDER BY left(path, 512) COLLATE "C", path COLLATE "C"
           LIMIT $5"#,
        repository.as_str(),
        prefix,
        after.unwrap_or(""),
        behind_prefix(prefix),
        i64::from(limit),
    )
    .fetch_all(db)
    .await?
    .into_iter()
    .map(Asset::try_from)
    .collect()
}

/// The least text above all texts that begin with `prefix`, cut to what the index holds; `None` if there is none.
fn behind_prefix(prefix: &str) -> Option<String> {
    let mut head: Vec<char> = prefix.chars().take(512).collect();
    while let Some(last) = head.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            head.push(next);
            return Some(head.into_iter().collect());
        }
    }
    None
}

/// At most `limit` revisions of a path below `before`, newest first; `None` if there is no such path.
pub async fn history(
    db: &mut PgConnection,
    repository: &Repository,
    path: &AssetPath,
    before: Option<i32>,
    limit: u32,
) -> Result<Option<Vec<Revision>>, Error> {
    let Some(asset) = asset_id(&mut *db, repository, path).await? else {
        return Ok(None);
    };
    let rows = sqlx::query!(
        "SELECT revision, artifact_id, created_at, created_by FROM arkvory_asset_revisions
         WHERE asset_id = $1 AND revision < $2 ORDER BY revision DESC LIMIT $3",
        asset,
        before.unwrap_or(i32::MAX),
        i64::from(limit),
    )
    .fetch_all(db)
    .await?;
    let revisions = rows.into_iter().map(|row| Revision {
        revision: row.revision,
        artifact: ArtifactId::from_uuid(row.artifact_id),
        created_at: row.created_at,
        created_by: row.created_by,
    });
    Ok(Some(revisions.collect()))
}

/// One revision of a path.
pub async fn revision(
    db: &mut PgConnection,
    repository: &Repository,
    path: &AssetPath,
    revision: i32,
) -> Result<Option<Revision>, Error> {
    let Some(asset) = asset_id(&mut *db, repository, path).await? else {
        return Ok(None);
    };
    let row = sqlx::query!(
        "SELECT artifact_id, created_at, created_by FROM arkvory_asset_revisions WHERE asset_id = $1 AND revision = $2",
        asset,
        revision,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Revision {
        revision,
        artifact: ArtifactId::from_uuid(row.artifact_id),
        created_at: row.created_at,
        created_by: row.created_by,
    }))
}

async fn asset_id(db: &mut PgConnection, repository: &Repository, path: &AssetPath) -> Result<Option<i64>, Error> {
    Ok(sqlx::query_scalar!(
        "SELECT id FROM arkvory_assets WHERE repository = $1 AND path_sha256 = $2",
        repository.as_str(),
        &path.key(),
    )
    .fetch_optional(db)
    .await?)
}

#[cfg(test)]
mod tests {
    use super::behind_prefix;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(behind_prefix(""), None);
        assert_eq!(behind_prefix("a/").as_deref(), Some("a0"));
        assert_eq!(behind_prefix("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(behind_prefix("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(
            behind_prefix(&"ü".repeat(600)).map(|end| end.chars().count()),
            Some(512)
        );
    }
}
