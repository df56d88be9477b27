//! The row that ties the database to one data directory (docs/spec/leases.md 5.1, 5.6).

use sqlx::PgConnection;
use uuid::Uuid;

use super::error::{Error, Refusal};

/// The stored id of the data directory, if the writer has stored one.
pub async fn stored(connection: &mut PgConnection) -> Result<Option<Uuid>, Error> {
    Ok(sqlx::query_scalar!("SELECT storage_id FROM arkvory_storage_identity")
        .fetch_optional(connection)
        .await?)
}

/// Stores `id` unless one is stored already. Never called by a reader.
pub async fn store_if_none(connection: &mut PgConnection, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO arkvory_storage_identity (storage_id) VALUES ($1) ON CONFLICT DO NOTHING",
        id
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Requires that the stored id is `id`; refuses with [`Refusal::Identity`] when it is another, or none.
pub async fn require(connection: &mut PgConnection, id: Uuid) -> Result<(), Error> {
    if stored(connection).await? == Some(id) {
        Ok(())
    } else {
        Err(Refusal::Identity.into())
    }
}
