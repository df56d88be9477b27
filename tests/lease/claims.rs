//! Claiming the storage beside others.

use std::sync::Arc;

use arkvory::catalog::connect::Database;
use arkvory::catalog::identity;
use arkvory::clock::{Clock as _, SystemClock};
use arkvory::lease::{Claim, Ended, Error, Ownership};
use arkvory::model::failure::Kind;
use sqlx::Executor as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::support::TestDatabase;
use super::{acquire, assert_refused, millis, slot, support};

struct Storage {
    database: TestDatabase,
    id: Uuid,
}

impl Storage {
    async fn new() -> Self {
        Self {
            database: support::database().await,
            id: Uuid::new_v4(),
        }
    }

    async fn claim(&self, claim: Claim) -> Result<Ownership, Error> {
        self.claim_as(claim, self.id).await
    }

    async fn claim_as(&self, claim: Claim, id: Uuid) -> Result<Ownership, Error> {
        let database = Database::new(&self.database.url, "test").expect("a URL");
        Ownership::claim(database, claim, id, Arc::new(SystemClock)).await
    }
}

#[tokio::test]
async fn one_writer_and_many_readers() {
    let storage = Storage::new().await;
    let writer = storage.claim(Claim::Writer).await.unwrap();
    let reader = storage.claim(Claim::Reader).await.unwrap();
    let _second = storage.claim(Claim::Reader).await.unwrap();
    // A failed contender may try again.
    for _ in 0..2 {
        let refused = assert_refused(storage.claim(Claim::Writer).await, Kind::Busy);
        assert_eq!(refused.to_string(), "writer lock already owned");
    }
    writer.release().await;
    let writer = storage.claim(Claim::Writer).await.unwrap();
    assert!(writer.changes().allowed());
    assert!(reader.window().is_open(SystemClock.now()));
}

#[tokio::test]
async fn the_profiles_never_mix() {
    let storage = Storage::new().await;
    let reader = storage.claim(Claim::Reader).await.unwrap_err();
    assert!(
        reader.to_string().contains("ARKVORY_DATA_DIR"),
        "a reader stores no identity"
    );
    let standalone = storage.claim(Claim::Standalone).await.unwrap();
    assert_refused(storage.claim(Claim::Writer).await, Kind::Busy);
    assert_refused(storage.claim(Claim::Reader).await, Kind::Busy);
    standalone.release().await;
    let reader = storage.claim(Claim::Reader).await.unwrap();
    assert_refused(storage.claim(Claim::Standalone).await, Kind::Busy);
    reader.release().await;
    storage.claim(Claim::Standalone).await.unwrap().release().await;

    // All stopped, but the policy row remains.
    acquire(&storage.database.url, slot(0)).await.unwrap();
    for _ in 0..2 {
        assert_refused(storage.claim(Claim::Standalone).await, Kind::Conflict);
    }
    storage.claim(Claim::Writer).await.unwrap();
}

#[tokio::test]
async fn maintenance_needs_everything_stopped() {
    let storage = Storage::new().await;
    let mut meddler = storage.database.connect().await;
    let writer = storage.claim(Claim::Writer).await.unwrap();
    let reader = storage.claim(Claim::Reader).await.unwrap();
    assert_refused(storage.claim(Claim::Maintenance).await, Kind::Busy);
    writer.release().await;
    assert_refused(storage.claim(Claim::Maintenance).await, Kind::Busy);
    reader.release().await;

    acquire(&storage.database.url, slot(0)).await.unwrap();
    let refused = assert_refused(storage.claim(Claim::Maintenance).await, Kind::Busy);
    assert!(refused.to_string().contains("[0]"), "{refused}");
    meddler
        .execute("UPDATE arkvory_gateway_leases SET expires_at = clock_timestamp()")
        .await
        .unwrap();
    let maintenance = storage.claim(Claim::Maintenance).await.unwrap();
    for claim in [Claim::Writer, Claim::Reader, Claim::Worker] {
        assert_refused(storage.claim(claim).await, Kind::Busy);
    }
    maintenance.release().await;
    let _worker = storage.claim(Claim::Worker).await.unwrap();
    assert_refused(storage.claim(Claim::Worker).await, Kind::Busy);
}

#[tokio::test]
async fn another_directory_is_refused() {
    let storage = Storage::new().await;
    let mut meddler = storage.database.connect().await;
    assert_refused(storage.claim(Claim::Reader).await, Kind::Conflict);
    assert_eq!(identity::stored(&mut meddler).await.unwrap(), None);
    let writer = storage.claim(Claim::Writer).await.unwrap();
    assert_eq!(identity::stored(&mut meddler).await.unwrap(), Some(storage.id));
    assert_refused(storage.claim_as(Claim::Reader, Uuid::new_v4()).await, Kind::Conflict);
    writer.release().await;
    assert_refused(storage.claim_as(Claim::Writer, Uuid::new_v4()).await, Kind::Conflict);
}

#[tokio::test]
async fn a_closed_ownership_is_free_soon() {
    let storage = Storage::new().await;
    let writer = storage.claim(Claim::Writer).await.unwrap();
    let (window, changes) = (writer.window(), writer.changes());
    let cancel = CancellationToken::new();
    let (ended, ()) = tokio::join!(writer.run(cancel.clone()), async {
        tokio::time::sleep(millis(300)).await;
        cancel.cancel();
    });
    assert_eq!(ended, Ended::Closed);
    assert!(!window.is_open(SystemClock.now()) && !changes.allowed());
    tokio::time::sleep(millis(250)).await;
    storage.claim(Claim::Writer).await.unwrap();
}
