//! A writer, with its lease and its ownership, while its database is away (docs/spec/cases.md 9.4).

use std::sync::Arc;
use std::time::Duration;

use arkvory::catalog::connect::Database;
use arkvory::clock::{Clock as _, SystemClock};
use arkvory::lease::facts::Facts;
use arkvory::lease::{Cause, Changes, Claim, Ended, Ownership};
use arkvory::model::trust::Trust;
use sqlx::PgConnection;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::support::TestDatabase;
use super::support::chaos::Chaos;
use super::{acquire, expiry, given_after, millis, slot, support};

struct Writer {
    database: TestDatabase,
    meddler: PgConnection,
    chaos: Chaos,
    storage: Uuid,
    trust: Trust,
    changes: Changes,
    lease: Facts,
    ownership: Facts,
    tasks: JoinSet<Ended>,
}

async fn claim(url: &str, storage: Uuid) -> Result<Ownership, arkvory::lease::Error> {
    let database = Database::new(url, "test").expect("a URL");
    Ownership::claim(database, Claim::Writer, storage, Arc::new(SystemClock)).await
}

impl Writer {
    async fn start() -> Self {
        let database = support::database().await;
        let meddler = database.connect().await;
        let chaos = Chaos::to(database.address()).await;
        let url = database.by_way_of(chaos.address());
        let storage = Uuid::new_v4();
        let ownership = claim(&url, storage).await.expect("claim");
        let lease = acquire(&url, slot(0)).await.expect("acquire");
        let trust = Trust::new(Arc::new(SystemClock), vec![ownership.window(), lease.window()]);
        let mut writer = Self {
            database,
            meddler,
            chaos,
            storage,
            trust,
            changes: ownership.changes(),
            lease: lease.facts(),
            ownership: ownership.facts(),
            tasks: JoinSet::new(),
        };
        writer.tasks.spawn(lease.run(CancellationToken::new()));
        writer.tasks.spawn(ownership.run(CancellationToken::new()));
        // Some way into its life, between two renewals.
        tokio::time::sleep(millis(2_700)).await;
        writer
    }

    /// Asserts that it is trusted for this long, without a gap.
    async fn trusted_for(&mut self, span: Duration) {
        let start = SystemClock.now();
        while SystemClock.now().since(start) < span {
            assert!(self.trust.holds(), "lost after {:?}", SystemClock.now().since(start));
            assert!(self.tasks.try_join_next().is_none());
            tokio::time::sleep(millis(20)).await;
        }
    }

    async fn terminate(&mut self) {
        self.database.terminate_sessions(&mut self.meddler).await;
    }

    /// Waits until changes are allowed, or not, and returns how long that took.
    async fn changes_become(&self, allowed: bool) -> Duration {
        let start = SystemClock.now();
        while self.changes.allowed() != allowed {
            assert!(SystemClock.now().since(start) < millis(10_000));
            tokio::time::sleep(millis(2)).await;
        }
        SystemClock.now().since(start)
    }

    /// Good again: renewed and probed after the outage.
    async fn recovers(&mut self) {
        self.trusted_for(millis(5_000)).await;
        assert!(self.changes.allowed());
        let now = SystemClock.now();
        assert!(self.lease.age(now) < millis(3_300), "{:?}", self.lease.age(now));
        assert!(self.ownership.age(now) < millis(3_300), "{:?}", self.ownership.age(now));
    }
}

const SHORT: Duration = Duration::from_secs(4);

#[tokio::test]
async fn four_seconds_of_a_frozen_link_stop_nothing() {
    let mut writer = Writer::start().await;
    writer.chaos.freeze();
    writer.trusted_for(SHORT).await;
    writer.chaos.restore();
    writer.recovers().await;
    assert!(writer.lease.progress().borrow().failed > 0);
}

#[tokio::test]
async fn four_seconds_of_refused_connections_stop_nothing() {
    let mut writer = Writer::start().await;
    writer.chaos.refuse();
    writer.trusted_for(SHORT).await;
    assert!(!writer.changes.allowed(), "no change without the locks");
    writer.chaos.restore();
    writer.recovers().await;
}

#[tokio::test]
async fn four_seconds_of_a_server_that_ends_every_session_stop_nothing() {
    let mut writer = Writer::start().await;
    for _ in 0..40 {
        writer.terminate().await;
        writer.trusted_for(SHORT / 40).await;
    }
    writer.recovers().await;
}

/// The old connections never come back, and the server never learns that they are gone: their session still holds the
/// writer lock when the new one asks for it.
#[tokio::test]
async fn an_own_session_that_lingers_is_no_rival() {
    let mut writer = Writer::start().await;
    writer.chaos.freeze();
    writer.trusted_for(SHORT).await;
    writer.chaos.restore_for_new_connections();
    writer.recovers().await;
}

#[tokio::test]
async fn a_long_outage_closes_the_window_in_time() {
    let mut writer = Writer::start().await;
    writer.chaos.freeze();
    let start = SystemClock.now();
    while writer.trust.holds() {
        tokio::time::sleep(millis(5)).await;
    }
    let lost = SystemClock.now();
    assert!(lost.since(start) <= millis(8_050), "{:?}", lost.since(start));
    let age = writer.lease.age(lost).max(writer.ownership.age(lost));
    assert!(age >= millis(8_000) && age < millis(8_100), "{age:?}");
    while let Some(ended) = writer.tasks.join_next().await {
        assert_eq!(ended.unwrap(), Ended::Lost(Cause::WindowClosed));
    }
    assert!(SystemClock.now().since(start) < millis(9_500));
    assert!(!writer.changes.allowed());

    // A replacement starts only after the reservation, and the old one never revives.
    let reserved_until = expiry(&mut writer.meddler).await;
    writer.chaos.restore();
    let replacement = acquire(&writer.database.url, slot(0)).await.unwrap();
    assert_eq!(replacement.grant().generation, 2);
    assert!(given_after(&reserved_until, &mut writer.meddler).await);
    assert!(!writer.trust.holds());
    claim(&writer.database.url, writer.storage).await.unwrap();
}

#[tokio::test]
async fn a_terminated_session_stops_changes_at_once_and_is_replaced() {
    let mut writer = Writer::start().await;
    for _ in 0..3 {
        writer.terminate().await;
        let noticed = writer.changes_become(false).await;
        assert!(noticed < millis(100), "{noticed:?}");
        let back = writer.changes_become(true).await;
        assert!(back < millis(1_000), "{back:?}");
        writer.trusted_for(millis(700)).await;
    }
}

#[tokio::test]
async fn a_lock_that_another_took_is_a_loss_at_once() {
    let mut writer = Writer::start().await;
    writer.chaos.refuse();
    writer.terminate().await;
    writer.changes_become(false).await;
    let _rival = claim(&writer.database.url, writer.storage).await.unwrap();
    assert!(writer.trust.holds(), "reads go on");
    writer.chaos.restore();
    let ended = writer.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(ended, Ended::Lost(Cause::LockRefused));
    assert!(!writer.trust.holds() && !writer.changes.allowed());
}
