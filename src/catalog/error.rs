//! What can go wrong between this process and PostgreSQL.

use std::borrow::Cow;

use crate::model::failure::{Classify, Kind};

/// A failure of the catalog.
///
/// Its text never holds what the driver said: a driver's text can carry SQL, values or the address. Log lines take
/// [`Error::error_name`] and [`Error::sqlstate`] instead (docs/spec/errors.md 3.3).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver failed, or the database refused a statement.
    #[error("the database failed")]
    Driver(#[from] sqlx::Error),
    /// The database did not answer before the deadline of this side.
    #[error("the database did not answer in time")]
    Deadline,
    /// `ARKVORY_DATABASE_URL` can't be used.
    #[error("Invalid ARKVORY_DATABASE_URL")]
    Url,
    /// A stored value that this program can't have written.
    #[error("{table}.{column} holds an impossible value")]
    Inconsistent {
        /// Where.
        table: &'static str,
        /// What.
        column: &'static str,
    },
    /// A change touched another number of rows than it must.
    #[error("a change touched {actual} rows instead of {expected}")]
    RowsAffected {
        /// Rows that it must touch.
        expected: u64,
        /// Rows that it touched.
        actual: u64,
    },
    /// A migration that this program needs is missing.
    #[error("the database needs `arkvory migrate`")]
    SchemaOlder,
    /// The database has a migration that this program does not know.
    #[error("the database's schema is newer than this program")]
    SchemaNewer,
    /// The session lives but no longer holds all its locks.
    #[error("a session lock is gone")]
    LocksGone,
    /// A lock is still held by an earlier session of this very process, which the database is about to end.
    #[error("an earlier session of this process lingers in the database")]
    Lingering,
    /// The state of the installation forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why a process may not start, or may not go on, beside what else runs or is stored (docs/spec/leases.md 5.3, 5.6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A standalone writer beside a gateway process, or the reverse.
    #[error("a standalone writer and processes with ARKVORY_GATEWAY_SLOTS would mix on one database")]
    ProfilesMix,
    /// A standalone writer on a database that holds a policy.
    #[error("the database insists on the shared profile: set ARKVORY_GATEWAY_SLOTS and its companions")]
    PolicyStored,
    /// Another worker is active.
    #[error("another worker is active")]
    WorkerOwned,
    /// Another writer, or maintenance, holds the writer lock.
    #[error("writer lock already owned")]
    WriterOwned,
    /// Maintenance is running, or maintenance was asked for while a process lives.
    #[error("maintenance and a running process exclude each other")]
    Maintenance,
    /// Maintenance was asked for while leases are unexpired.
    #[error("maintenance waits for the leases of slots {0:?} to expire")]
    LeasesLive(Vec<u8>),
    /// The database belongs to another data directory, or to none yet.
    #[error("ARKVORY_DATA_DIR and ARKVORY_DATABASE_URL do not belong together")]
    Identity,
    /// No policy is stored yet: the writer has never run.
    #[error("no download policy is stored: start the writer with ARKVORY_GATEWAY_SLOTS first")]
    PolicyAbsent,
    /// The stored policy has other numbers.
    #[error(
        "ARKVORY_GATEWAY_SLOTS, ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND or ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL differs from the stored policy; README.md tells under \"Set the limit\" how to change it"
    )]
    PolicyDiffers,
}

impl Error {
    /// The SQLSTATE, if the database itself gave one.
    pub fn sqlstate(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Driver(error) => error.as_database_error()?.code(),
            _ => None,
        }
    }

    /// Passes when a change touched as many rows as it must.
    pub(super) fn ensure_rows(expected: u64, actual: u64) -> Result<(), Self> {
        if expected == actual {
            Ok(())
        } else {
            Err(Self::RowsAffected { expected, actual })
        }
    }

    /// A constant word for log lines.
    pub fn error_name(&self) -> &'static str {
        match self {
            Self::Driver(error) => driver_name(error),
            Self::Deadline => "Deadline",
            Self::Url => "Url",
            Self::Inconsistent { .. } => "Inconsistent",
            Self::RowsAffected { .. } => "RowsAffected",
            Self::SchemaOlder => "SchemaOlder",
            Self::SchemaNewer => "SchemaNewer",
            Self::LocksGone => "LocksGone",
            Self::Lingering => "Lingering",
            Self::Refused(_) => "Refused",
        }
    }
}

fn driver_name(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Database(_) => "Database",
        sqlx::Error::Io(_) => "Io",
        sqlx::Error::Tls(_) => "Tls",
        sqlx::Error::Protocol(_) => "Protocol",
        sqlx::Error::PoolTimedOut => "PoolTimedOut",
        sqlx::Error::PoolClosed => "PoolClosed",
        sqlx::Error::WorkerCrashed => "WorkerCrashed",
        sqlx::Error::RowNotFound => "RowNotFound",
        sqlx::Error::Configuration(_) => "Configuration",
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => "Decode",
        _ => "Driver",
    }
}

impl Classify for Error {
    fn name(&self) -> &'static str {
        self.error_name()
    }

    fn sqlstate(&self) -> Option<String> {
        Self::sqlstate(self).map(Cow::into_owned)
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Driver(error) => driver_kind(error),
            Self::Deadline | Self::SchemaOlder | Self::SchemaNewer | Self::LocksGone | Self::Lingering => {
                Kind::Unavailable
            }
            Self::Url => Kind::InvalidInput,
            Self::Inconsistent { .. } | Self::RowsAffected { .. } => Kind::Internal,
            Self::Refused(refusal) => refusal.kind(),
        }
    }

    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Refused(refusal) => refusal.reason(),
            Self::Driver(_) if self.kind() == Kind::CapacityExceeded => Some("storage_full"),
            _ => None,
        }
    }
}

fn driver_kind(error: &sqlx::Error) -> Kind {
    match error {
        sqlx::Error::Database(error) => error.code().map_or(Kind::Internal, |code| sqlstate_kind(&code)),
        // A driver's I/O is the socket, so whatever failed, the database is out of reach.
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Kind::Unavailable,
        _ => Kind::Internal,
    }
}

/// 25P03 is not in the specification's list: it is what PostgreSQL says when it ended one of our transactions because
/// this side fell silent in it (`idle_in_transaction_session_timeout` of the lease transactions).
fn sqlstate_kind(code: &str) -> Kind {
    match code {
        "53100" => Kind::CapacityExceeded,
        "57P01" | "57P02" | "57P03" | "53300" | "40001" | "57014" | "25P03" => Kind::Unavailable,
        _ if code.starts_with("08") => Kind::Unavailable,
        _ => Kind::Internal,
    }
}

impl Classify for Refusal {
    fn kind(&self) -> Kind {
        match self {
            Self::ProfilesMix | Self::WorkerOwned | Self::WriterOwned | Self::Maintenance | Self::LeasesLive(_) => {
                Kind::Busy
            }
            Self::PolicyStored | Self::Identity | Self::PolicyAbsent | Self::PolicyDiffers => Kind::Conflict,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        (self.kind() == Kind::Conflict).then_some("state_conflict")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_database_that_is_away() {
        for code in ["08006", "08P01", "57P01", "57P02", "57P03", "53300", "40001", "57014"] {
            assert_eq!(sqlstate_kind(code), Kind::Unavailable, "{code}");
        }
        assert_eq!(sqlstate_kind("53100"), Kind::CapacityExceeded);
        for code in ["42P01", "23505", "28P01", "53200"] {
            assert_eq!(sqlstate_kind(code), Kind::Internal, "{code}");
        }
    }

    #[test]
    fn the_drivers_text_stays_inside() {
        let secret = "postgres://user:secret@db";
        let error = Error::from(sqlx::Error::Io(std::io::Error::other(secret)));
        assert_eq!(error.kind(), Kind::Unavailable);
        assert_eq!(error.error_name(), "Io");
        assert!(!error.to_string().contains("secret"));
        assert_eq!(Error::from(sqlx::Error::PoolTimedOut).kind(), Kind::Unavailable);
        assert_eq!(Error::from(sqlx::Error::RowNotFound).kind(), Kind::Internal);
    }

    #[test]
    fn conflicts_have_a_reason_and_busy_has_none() {
        assert_eq!(Refusal::PolicyDiffers.reason(), Some("state_conflict"));
        assert_eq!(Refusal::WriterOwned.reason(), None);
        assert_eq!(Refusal::WriterOwned.kind(), Kind::Busy);
    }
}
