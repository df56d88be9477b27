//! The advisory locks of the installation, all in one place (docs/spec/leases.md 5.5).

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::error::Error;
use crate::model::id::ArtifactId;

/// The first integer of every lock of ours, so that other users of the same database can't collide: "ARKV".
pub const CLASS: i32 = 0x4152_4B56;

/// A named lock; its number is the second integer.
///
/// | Name | Mode | Holder | Purpose |
/// |---|---|---|---|
/// | migration | transaction | `migrate` | one migration at a time |
/// | reservation | transaction | writer | serialise upload reservations (capacity and quota) |
/// | writer | exclusive session | writer; maintenance | one writer per database |
/// | maintenance | shared: api, reader, worker; exclusive: maintenance | | offline work only when everything is stopped |
/// | job queue | transaction | writer | serialise job enqueueing |
/// | worker | exclusive session | active worker | one active worker, others stand by |
/// | profile | shared: api and readers of the gateway profile; exclusive: standalone api | | the two profiles never mix |
/// | lease section | transaction | api, readers | one acquisition at a time |
/// | cleanup | exclusive session | writer | one online-cleanup pass |
///
/// Files that are being read are protected by the kernel instead (docs/spec/storage.md 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Lock {
    /// One migration at a time.
    Migration = 1,
    /// Serialises upload reservations.
    Reservation = 2,
    /// One writer per database.
    Writer = 3,
    /// Offline work only when everything is stopped.
    Maintenance = 4,
    /// Serialises job enqueueing.
    JobQueue = 5,
    /// One active worker.
    Worker = 6,
    /// The standalone and the gateway profile never mix.
    Profile = 7,
    /// One lease acquisition at a time.
    LeaseSection = 8,
    /// One online-cleanup pass.
    Cleanup = 9,
}

/// How a session holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Together with others that share it.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    /// Its name in `pg_locks.mode`.
    pub const fn in_pg_locks(self) -> &'static str {
        match self {
            Self::Shared => "ShareLock",
            Self::Exclusive => "ExclusiveLock",
        }
    }
}

impl Lock {
    /// The second integer.
    pub const fn key(self) -> i32 {
        self as i32
    }

    /// Waits for the lock, exclusive until the transaction ends. Bounded by the statement timeout.
    pub async fn in_transaction(self, connection: &mut PgConnection) -> Result<(), Error> {
        sqlx::query!("SELECT pg_advisory_xact_lock($1, $2)", CLASS, self.key())
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Takes the lock, exclusive until the transaction ends, if it is free now.
    pub async fn try_in_transaction(self, connection: &mut PgConnection) -> Result<bool, Error> {
        Ok(sqlx::query_scalar!(
            r#"SELECT pg_try_advisory_xact_lock($1, $2) AS "held!""#,
            CLASS,
            self.key()
        )
        .fetch_one(connection)
        .await?)
    }

    /// Takes the lock until the session ends, if it is free now.
    pub async fn try_in_session(self, mode: Mode, connection: &mut PgConnection) -> Result<bool, Error> {
        let held = match mode {
            Mode::Shared => {
                sqlx::query_scalar!(
                    r#"SELECT pg_try_advisory_lock_shared($1, $2) AS "held!""#,
                    CLASS,
                    self.key()
                )
                .fetch_one(connection)
                .await?
            }
            Mode::Exclusive => {
                sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock($1, $2) AS "held!""#, CLASS, self.key())
                    .fetch_one(connection)
                    .await?
            }
        };
        Ok(held)
    }
}

/// The key of the lock of one upload, for the form with a single bigint: the first 8 bytes, big-endian and signed, of
/// SHA-256 of the id's text.
pub fn upload_key(id: ArtifactId) -> i64 {
    let hash = Sha256::digest(id.to_string());
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_upload_is_the_head_of_its_hash() {
        let id: ArtifactId = "0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11".parse().unwrap();
        // printf %s 0b4f7a52-… | sha256sum
        assert_eq!(upload_key(id), 0xb82b_fa3c_14e7_ed75_u64.cast_signed());
    }
}
