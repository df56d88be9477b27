//! Takes back publications that did not end.

use sqlx::Connection as _;

use super::{ChangeRight, Error};
use crate::catalog::{Catalog, uploads, within};
use crate::model::id::ArtifactId;
use crate::storage::{Removal, Volume};

/// At the start of a writer: takes back what a crash left of publications (docs/spec/storage.md 7.2). Such an upload can
/// only be repeated by its client. Returns how many there were.
///
/// The writer lock is held, so nobody else is publishing.
pub async fn recover(catalog: &Catalog, volume: &Volume, right: &ChangeRight) -> Result<usize, Error> {
    right.check()?;
    volume.sweep_staging()?;
    let mut db = catalog.connection().await?;
    let unfinished = within(uploads::unfinished(&mut db)).await?;
    drop(db);
    for id in &unfinished {
        // A process that was frozen in here may have a successor by now.
        right.check()?;
        abandon(catalog, volume, *id).await?;
    }
    Ok(unfinished.len())
}

/// Cancels one pending upload, removes its bytes and stops counting them. An upload that is published after all is left
/// alone. Safe to repeat after a crash at any point.
pub(super) async fn abandon(catalog: &Catalog, volume: &Volume, id: ArtifactId) -> Result<(), Error> {
    let mut db = catalog.connection().await?;
    let cancelled = within(uploads::cancel(&mut db, id)).await?;
    if !cancelled && within(uploads::status(&mut db, id)).await?.as_deref() != Some("cancelled") {
        return Ok(());
    }
    volume.discard_staging(id).await?;
    if volume.remove_blob(id).await? == Removal::Deferred {
        // Its bytes still count; the next start tries again.
        return Ok(());
    }
    let reclaimed = within(async {
        let mut transaction = db.begin().await?;
        uploads::reclaim(&mut transaction, id).await?;
        transaction.commit().await?;
        Ok(())
    });
    Ok(reclaimed.await?)
}
