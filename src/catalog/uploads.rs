//! Uploads on their way to being artifacts (docs/spec/storage.md 7.2).

use sqlx::PgConnection;
use uuid::Uuid;

use super::Error;
use super::locks::{self, Lock};
use crate::model::digest::Digest;
use crate::model::id::ArtifactId;
use crate::model::name::{ArtifactName, Repository};
use crate::model::principal::PrincipalId;

/// What a reservation says of the bytes to come.
#[derive(Clone, Debug)]
pub struct Reservation<'a> {
    /// Of the upload, and of the artifact that it becomes.
    pub id: ArtifactId,
    /// Where it belongs.
    pub repository: &'a Repository,
    /// Who publishes.
    pub owner: &'a PrincipalId,
    /// File name.
    pub name: &'a ArtifactName,
    /// Bytes; at most 2^63 - 1.
    pub size: u64,
    /// Digest of the bytes.
    pub digest: Digest,
}

/// Whether bytes could be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reserved {
    /// They are counted now.
    Yes,
    /// The installation's capacity would be exceeded; nothing was changed.
    OverCapacity,
}

fn as_bigint(size: u64) -> Result<i64, Error> {
    i64::try_from(size).map_err(|_| Error::Inconsistent {
        table: "arkvory_uploads",
        column: "size",
    })
}

/// Writes a `pending` upload and counts its bytes, if all reserved bytes stay within `capacity`. Needs a transaction:
/// reservations wait for each other until it ends.
pub async fn reserve(db: &mut PgConnection, upload: &Reservation<'_>, capacity: u64) -> Result<Reserved, Error> {
    Lock::Reservation.in_transaction(&mut *db).await?;
    let size = as_bigint(upload.size)?;
    let fits = sqlx::query_scalar!(
        r#"SELECT COALESCE(sum(reserved_bytes), 0) + $1::bigint <= $2::bigint AS "fits!" FROM arkvory_repository_usage"#,
        size,
        as_bigint(capacity)?,
    )
    .fetch_one(&mut *db)
    .await?;
    if !fits {
        return Ok(Reserved::OverCapacity);
    }
    sqlx::query!(
        "INSERT INTO arkvory_uploads (id, repository, owner, status, name, size, sha256)
         VALUES ($1, $2, $3, 'pending', $4, $5, $6)",
        upload.id.as_uuid(),
        upload.repository.as_str(),
        upload.owner.as_str(),
        upload.name.as_str(),
        size,
        upload.digest.as_bytes(),
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "INSERT INTO arkvory_repository_usage AS held (repository, reserved_bytes) VALUES ($1, $2::bigint)
         ON CONFLICT (repository) DO UPDATE SET reserved_bytes = held.reserved_bytes + $2::bigint",
        upload.repository.as_str(),
        size,
    )
    .execute(db)
    .await?;
    Ok(Reserved::Yes)
}

/// Makes a pending upload readable.
pub async fn publish(db: &mut PgConnection, id: ArtifactId) -> Result<(), Error> {
    let done = sqlx::query!(
        "UPDATE arkvory_uploads SET status = 'available', published_at = now() WHERE id = $1 AND status = 'pending'",
        id.as_uuid(),
    )
    .execute(db)
    .await?;
    Error::ensure_rows(1, done.rows_affected())
}

/// Ends a pending upload. False if it isn't pending.
pub async fn cancel(db: &mut PgConnection, id: ArtifactId) -> Result<bool, Error> {
    let done = sqlx::query!(
        "UPDATE arkvory_uploads SET status = 'cancelled' WHERE id = $1 AND status = 'pending'",
        id.as_uuid(),
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Stops counting the bytes of a cancelled upload of which nothing is left on disk; again it changes nothing. Needs a
/// transaction.
pub async fn reclaim(db: &mut PgConnection, id: ArtifactId) -> Result<(), Error> {
    let row = sqlx::query!(
        "UPDATE arkvory_uploads SET reclaimed_at = now()
         WHERE id = $1 AND status = 'cancelled' AND reclaimed_at IS NULL RETURNING repository, size",
        id.as_uuid(),
    )
    .fetch_optional(&mut *db)
    .await?;
    let Some(row) = row else { return Ok(()) };
    let done = sqlx::query!(
        "UPDATE arkvory_repository_usage SET reserved_bytes = reserved_bytes - $2::bigint WHERE repository = $1",
        row.repository,
        row.size,
    )
    .execute(db)
    .await?;
    Error::ensure_rows(1, done.rows_affected())
}

/// Uploads that are pending, or cancelled with bytes that may still be on disk.
pub async fn unfinished(db: &mut PgConnection) -> Result<Vec<ArtifactId>, Error> {
    let ids = sqlx::query_scalar!(
        "SELECT id FROM arkvory_uploads WHERE status = 'pending' OR (status = 'cancelled' AND reclaimed_at IS NULL)"
    )
    .fetch_all(db)
    .await?;
    Ok(ids.into_iter().map(ArtifactId::from_uuid).collect())
}

/// Takes the lock of one upload until the session ends or [`unlock`]s it. False if another session has it
/// (docs/spec/storage.md 7.2).
pub async fn lock(db: &mut PgConnection, id: ArtifactId) -> Result<bool, Error> {
    let held = sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock($1) AS "held!""#, locks::upload_key(id));
    Ok(held.fetch_one(db).await?)
}

/// Frees the lock of one upload.
pub async fn unlock(db: &mut PgConnection, id: ArtifactId) -> Result<(), Error> {
    let freed = sqlx::query_scalar!(r#"SELECT pg_advisory_unlock($1) AS "freed!""#, locks::upload_key(id));
    if freed.fetch_one(db).await? {
        Ok(())
    } else {
        Err(Error::LocksGone)
    }
}

/// What the database says of an upload: `pending`, `available` or `cancelled`.
pub async fn status(db: &mut PgConnection, id: ArtifactId) -> Result<Option<String>, Error> {
    Ok(
        sqlx::query_scalar!("SELECT status FROM arkvory_uploads WHERE id = $1", id.as_uuid())
            .fetch_optional(db)
            .await?,
    )
}

/// A published artifact with these bytes, in any repository, to store equal bytes once.
pub async fn with_equal_bytes(db: &mut PgConnection, digest: Digest, size: u64) -> Result<Option<ArtifactId>, Error> {
    let id: Option<Uuid> = sqlx::query_scalar!(
        "SELECT id FROM arkvory_uploads WHERE sha256 = $1 AND size = $2 AND status = 'available'
         ORDER BY published_at DESC LIMIT 1",
        digest.as_bytes(),
        as_bigint(size)?,
    )
    .fetch_optional(db)
    .await?;
    Ok(id.map(ArtifactId::from_uuid))
}
