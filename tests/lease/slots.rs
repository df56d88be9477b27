//! Acquiring and renewing slots.

use std::sync::Arc;

use arkvory::catalog;
use arkvory::catalog::anchors::LeaseSession;
use arkvory::catalog::slots::Answer;
use arkvory::clock::{Clock as _, SystemClock};
use arkvory::lease::{Cause, Ended, Instance, Lease, Wanted};
use arkvory::model::failure::{Classify as _, Kind};
use sqlx::Executor as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{TOTAL, acquire, assert_refused, expiry, given_after, millis, policy, settings, slot, support};

#[tokio::test]
async fn a_restarted_slot_waits_for_the_reservation() {
    let database = support::database().await;
    let mut meddler = database.connect().await;
    let first = acquire(&database.url, slot(0)).await.unwrap();
    assert_eq!(first.grant().generation, 1);
    let window = first.window();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(first.run(cancel).await, Ended::Closed);
    assert!(!window.is_open(SystemClock.now()), "closed for ever");

    let reserved_until = expiry(&mut meddler).await;
    let second = acquire(&database.url, slot(0)).await.unwrap();
    assert!(given_after(&reserved_until, &mut meddler).await);
    assert_eq!(second.grant().generation, 2);
    assert!(second.window().is_open(SystemClock.now()));
    assert!(!window.is_open(SystemClock.now()));
}

#[tokio::test]
async fn a_slot_of_a_live_process_is_busy() {
    let database = support::database().await;
    acquire(&database.url, slot(0)).await.unwrap();
    let reader = acquire(&database.url, slot(1)).await.unwrap();
    let facts = reader.facts();
    let mut tasks = JoinSet::new();
    tasks.spawn(reader.run(CancellationToken::new()));
    let start = SystemClock.now();
    assert_refused(acquire(&database.url, slot(1)).await, Kind::Busy);
    let waited = SystemClock.now().since(start);
    assert!(waited < millis(4_000), "{waited:?}");
    assert!(facts.left(SystemClock.now()) > millis(5_500));
    assert!(facts.progress().borrow().succeeded > 1);
}

#[tokio::test]
async fn a_reader_needs_the_policy_of_the_writer() {
    let database = support::database().await;
    let refused = assert_refused(acquire(&database.url, slot(1)).await, Kind::Conflict);
    assert_eq!(refused.reason(), Some("state_conflict"));
    acquire(&database.url, slot(0)).await.unwrap();
    let mut doubled = settings(&database.url, slot(1));
    doubled.policy = policy(2 * TOTAL);
    let refused = assert_refused(Lease::acquire(doubled, Arc::new(SystemClock)).await, Kind::Conflict);
    assert!(refused.to_string().contains("ARKVORY_GATEWAY_SLOTS"));
    // The writer itself is no exception.
    let mut doubled = settings(&database.url, slot(0));
    doubled.policy = policy(2 * TOTAL);
    assert_refused(Lease::acquire(doubled, Arc::new(SystemClock)).await, Kind::Conflict);
    acquire(&database.url, slot(1)).await.unwrap();
    assert_refused(acquire(&database.url, slot(3)).await, Kind::InvalidInput);
}

#[tokio::test]
async fn auto_readers_share_out_the_slots() {
    let database = support::database().await;
    acquire(&database.url, slot(0)).await.unwrap();
    let (one, two) = tokio::join!(
        acquire(&database.url, Wanted::Auto),
        acquire(&database.url, Wanted::Auto)
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    let mut slots = [one.grant().slot.number(), two.grant().slot.number()];
    slots.sort_unstable();
    assert_eq!(slots, [1, 2]);
    let mut tasks = JoinSet::new();
    tasks.spawn(one.run(CancellationToken::new()));
    tasks.spawn(two.run(CancellationToken::new()));
    let start = SystemClock.now();
    let refused = assert_refused(acquire(&database.url, Wanted::Auto).await, Kind::Busy);
    let text = refused.to_string();
    assert!(
        text.contains("ARKVORY_GATEWAY_SLOTS") && text.contains("1 to 2"),
        "{text}"
    );
    let waited = SystemClock.now().since(start);
    assert!(waited > millis(13_000) && waited <= millis(15_500), "{waited:?}");
}

#[tokio::test]
async fn an_auto_reader_takes_the_lowest_slot_that_expires() {
    let database = support::database().await;
    let mut meddler = database.connect().await;
    for number in 0..3 {
        acquire(&database.url, slot(number)).await.unwrap();
    }
    meddler
        .execute(
            "UPDATE arkvory_gateway_leases SET expires_at = clock_timestamp() + interval '700 milliseconds'
              WHERE slot = 2",
        )
        .await
        .unwrap();
    let lease = acquire(&database.url, Wanted::Auto).await.unwrap();
    assert_eq!(lease.grant().slot.number(), 2);
    assert_eq!(lease.grant().generation, 2);
}

#[tokio::test]
async fn an_expired_lease_is_not_renewed() {
    let database = support::database().await;
    let mut meddler = database.connect().await;
    let settings = settings(&database.url, slot(0));
    let mut session = LeaseSession::open(&settings.database, millis(5_000)).await.unwrap();
    let answer = session.acquire(slot(0), &settings.policy, Instance::random()).await;
    let Ok(Answer::Granted(grant)) = answer else {
        panic!("{answer:?}")
    };
    session.renew(&grant).await.unwrap();
    meddler
        .execute("UPDATE arkvory_gateway_leases SET expires_at = clock_timestamp()")
        .await
        .unwrap();
    let gone = session.renew(&grant).await.unwrap_err();
    assert!(matches!(
        gone,
        catalog::error::Error::RowsAffected { expected: 1, actual: 0 }
    ));
}

#[tokio::test]
async fn a_renewal_that_waits_past_the_expiry_fails() {
    let database = support::database().await;
    let mut meddler = database.connect().await;
    let settings = settings(&database.url, slot(0));
    let mut session = LeaseSession::open(&settings.database, millis(5_000)).await.unwrap();
    let answer = session.acquire(slot(0), &settings.policy, Instance::random()).await;
    let Ok(Answer::Granted(grant)) = answer else {
        panic!("{answer:?}")
    };
    meddler
        .execute("UPDATE arkvory_gateway_leases SET expires_at = clock_timestamp() + interval '600 milliseconds'")
        .await
        .unwrap();
    // Who declares a lease expired changes its row first: the renewal that waits for it then looks again.
    meddler
        .execute("BEGIN; UPDATE arkvory_gateway_leases SET generation = generation")
        .await
        .unwrap();
    let (renewed, ()) = tokio::join!(session.renew(&grant), async {
        tokio::time::sleep(millis(900)).await;
        meddler.execute("COMMIT").await.unwrap();
    });
    assert!(matches!(renewed, Err(catalog::error::Error::RowsAffected { .. })));
}

#[tokio::test]
async fn a_lease_that_was_given_away_is_lost() {
    let database = support::database().await;
    let mut meddler = database.connect().await;
    let lease = acquire(&database.url, slot(0)).await.unwrap();
    let window = lease.window();
    meddler
        .execute("UPDATE arkvory_gateway_leases SET generation = generation + 1, instance = gen_random_uuid()")
        .await
        .unwrap();
    let start = SystemClock.now();
    assert_eq!(lease.run(CancellationToken::new()).await, Ended::Lost(Cause::LeaseGone));
    assert!(SystemClock.now().since(start) < millis(2_500));
    assert!(!window.is_open(SystemClock.now()));
}

#[tokio::test]
async fn a_process_that_froze_in_an_acquisition_holds_nobody_up_for_long() {
    let database = support::database().await;
    let mut frozen = database.connect().await;
    frozen
        .execute(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '2s';
             SELECT pg_advisory_xact_lock(1095912278, 8)",
        )
        .await
        .unwrap();
    let start = SystemClock.now();
    acquire(&database.url, slot(0)).await.unwrap();
    let waited = SystemClock.now().since(start);
    assert!(waited > millis(1_000) && waited < millis(3_000), "{waited:?}");
}
