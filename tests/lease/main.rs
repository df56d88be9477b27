//! Leases and ownership in a real PostgreSQL (docs/spec/cases.md 9.2, 9.4).

mod claims;
mod outages;
mod slots;
mod start;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use arkvory::catalog::connect::Database;
use arkvory::clock::SystemClock;
use arkvory::lease::{Error, Instance, Lease, Policy, Settings, Wanted};
use arkvory::model::failure::{Classify as _, Kind};
use arkvory::model::member::Slot;
use sqlx::PgConnection;

/// Three slots at the lowest rate, as in docs/spec/cases.md.
const TOTAL: u64 = 3 * 65_536;

fn policy(total: u64) -> Policy {
    Policy::new(3, total, TOTAL).expect("a policy")
}

fn slot(number: u8) -> Wanted {
    Wanted::Fixed(Slot::new(number).expect("a slot"))
}

fn settings(url: &str, wanted: Wanted) -> Settings {
    Settings {
        database: Database::new(url, "test").expect("a URL"),
        policy: policy(TOTAL),
        wanted,
        instance: Instance::random(),
    }
}

async fn acquire(url: &str, wanted: Wanted) -> Result<Lease, Error> {
    Lease::acquire(settings(url, wanted), Arc::new(SystemClock)).await
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[track_caller]
fn assert_refused<T>(outcome: Result<T, Error>, kind: Kind) -> Error {
    let Err(error) = outcome else {
        panic!("it was not refused")
    };
    assert_eq!(error.kind(), kind, "{error}");
    error
}

/// When the lease of slot 0 expires, in the database's words.
async fn expiry(meddler: &mut PgConnection) -> String {
    sqlx::query_scalar("SELECT expires_at::text FROM arkvory_gateway_leases WHERE slot = 0")
        .fetch_one(meddler)
        .await
        .expect("a lease")
}

/// Whether the present lease of slot 0 was given when the one with this `expiry` was over.
async fn given_after(expiry: &str, meddler: &mut PgConnection) -> bool {
    sqlx::query_scalar(
        "SELECT expires_at - interval '10 seconds' >= $1::timestamptz FROM arkvory_gateway_leases WHERE slot = 0",
    )
    .bind(expiry)
    .fetch_one(meddler)
    .await
    .expect("a lease")
}
