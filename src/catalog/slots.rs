//! The statements about slots and their leases (docs/spec/leases.md 5.3, 5.4). The caller owns the transaction.
//!
//! Time is the database's `clock_timestamp()`, never `now()`: that is the start of the transaction, and a renewal that
//! began before the expiry would succeed after it (docs/spec/leases.md 5.4).

use std::fmt;
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::error::Error;
use super::locks::Lock;
use super::policy::{self, Policy};
use crate::model::member::Slot;

/// Names one start of a process. A restarted process is another instance, also in the same slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instance(Uuid);

impl Instance {
    /// A new random instance: once per process start.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// As a database value.
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which slot a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Fixed(Slot),
    /// The lowest reader's slot without a live lease (docs/spec/environment.md 4.2).
    Auto,
}

/// A slot that was given to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The slot.
    pub slot: Slot,
    /// Who has it.
    pub instance: Instance,
    /// Counts the owners of the slot, from 1.
    pub generation: i64,
}

/// A slot that another instance has; of several, the one that expires first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The slot.
    pub slot: Slot,
    /// When it expires, in the database's words. Only compared: another text means that somebody renews it.
    pub expiry: String,
    /// Time until then by the database's clock; zero when it is over.
    pub remaining: Duration,
}

/// What an attempt to acquire a slot brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The slot is ours for 10 s, once the transaction is committed.
    Granted(Grant),
    /// It is not; the transaction must be rolled back.
    Reserved(Reservation),
}

/// One attempt to acquire a slot, inside a transaction. Takes the lock of the lease section until its end.
///
/// The first process in slot 0 stores the policy. Fails with the refusals of [`policy::require`].
pub async fn acquire(
    connection: &mut PgConnection,
    wanted: Wanted,
    policy: &Policy,
    instance: Instance,
) -> Result<Answer, Error> {
    Lock::LeaseSection.in_transaction(connection).await?;
    if wanted == Wanted::Fixed(Slot::WRITER) {
        policy::store_if_none(connection, policy).await?;
    }
    policy::require(connection, policy).await?;
    let slot = match wanted {
        Wanted::Fixed(slot) => Some(slot),
        Wanted::Auto => lowest_free(connection, policy).await?,
    };
    if let Some(slot) = slot
        && let Some(generation) = insert_or_take_over(connection, slot, instance).await?
    {
        return Ok(Answer::Granted(Grant {
            slot,
            instance,
            generation,
        }));
    }
    // An `auto` slot that was free a moment ago and is not now has been renewed at the very end of its life.
    let asked = match wanted {
        Wanted::Fixed(slot) => slot.number()..slot.number() + 1,
        Wanted::Auto => 1..policy.slots(),
    };
    Ok(Answer::Reserved(earliest(connection, asked).await?))
}

async fn insert_or_take_over(
    connection: &mut PgConnection,
    slot: Slot,
    instance: Instance,
) -> Result<Option<i64>, Error> {
    Ok(sqlx::query_scalar!(
        "INSERT INTO arkvory_gateway_leases AS lease (slot, instance, generation, expires_at)
         VALUES ($1, $2, 1, clock_timestamp() + interval '10 seconds')
         ON CONFLICT (slot) DO UPDATE
            SET instance = excluded.instance,
                generation = lease.generation + 1,
                expires_at = clock_timestamp() + interval '10 seconds'
          WHERE lease.expires_at <= clock_timestamp()
         RETURNING generation",
        i32::from(slot.number()),
        instance.as_uuid(),
    )
    .fetch_optional(connection)
    .await?)
}

async fn lowest_free(connection: &mut PgConnection, policy: &Policy) -> Result<Option<Slot>, Error> {
    sqlx::query_scalar!(
        r#"SELECT number AS "number!"
             FROM generate_series(1, $1::integer - 1) AS number
            WHERE NOT EXISTS (SELECT FROM arkvory_gateway_leases
                               WHERE slot = number AND expires_at > clock_timestamp())
            ORDER BY number LIMIT 1"#,
        i32::from(policy.slots()),
    )
    .fetch_optional(connection)
    .await?
    .map(slot_of)
    .transpose()
}

async fn earliest(connection: &mut PgConnection, slots: std::ops::Range<u8>) -> Result<Reservation, Error> {
    let row = sqlx::query!(
        r#"SELECT slot, expires_at::text AS "expiry!",
                  greatest(0, ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000))::bigint AS "remaining!"
             FROM arkvory_gateway_leases
            WHERE slot >= $1 AND slot < $2
            ORDER BY expires_at LIMIT 1"#,
        i32::from(slots.start),
        i32::from(slots.end),
    )
    .fetch_one(connection)
    .await?;
    Ok(Reservation {
        slot: slot_of(row.slot)?,
        expiry: row.expiry,
        remaining: Duration::from_millis(row.remaining.unsigned_abs()),
    })
}

/// Renews a lease that has not expired, inside a transaction, for 10 s from the database's clock.
///
/// Fails with [`Error::RowsAffected`] when the lease is gone: expired, or given to another instance.
pub async fn renew(connection: &mut PgConnection, grant: &Grant) -> Result<(), Error> {
    let actual = sqlx::query!(
        "UPDATE arkvory_gateway_leases
            SET expires_at = clock_timestamp() + interval '10 seconds'
          WHERE slot = $1 AND instance = $2 AND generation = $3 AND expires_at > clock_timestamp()",
        i32::from(grant.slot.number()),
        grant.instance.as_uuid(),
        grant.generation,
    )
    .execute(connection)
    .await?
    .rows_affected();
    if actual == 1 {
        Ok(())
    } else {
        Err(Error::RowsAffected { expected: 1, actual })
    }
}

/// Slots whose lease has not expired, in order.
pub async fn live(connection: &mut PgConnection) -> Result<Vec<Slot>, Error> {
    sqlx::query_scalar!("SELECT slot FROM arkvory_gateway_leases WHERE expires_at > clock_timestamp() ORDER BY slot")
        .fetch_all(connection)
        .await?
        .into_iter()
        .map(slot_of)
        .collect()
}

fn slot_of(number: i32) -> Result<Slot, Error> {
    u8::try_from(number)
        .ok()
        .and_then(Slot::new)
        .ok_or(Error::Inconsistent {
            table: "arkvory_gateway_leases",
            column: "slot",
        })
}
