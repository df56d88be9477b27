//! The session that acquires and renews this process's slot.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use crate::catalog::connect::Database;
use crate::catalog::error::Error;
use crate::catalog::policy::Policy;
use crate::catalog::slots::{self, Answer, Grant, Instance, Wanted};

/// Begins a lease transaction, in one round trip.
///
/// - `READ COMMITTED`, whatever the server's default: a statement that has waited for a row must see its new version.
/// - 2 s for a statement (docs/spec/leases.md 5.2), and 2 s for this side to send the next one: a process that freezes
///   in the middle must hold neither the lease section nor a row any longer.
/// - `synchronous_commit`: a lease that a restarting server forgets would be given away while it is trusted.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
     SET LOCAL statement_timeout = '2s'; \
     SET LOCAL idle_in_transaction_session_timeout = '2s'; \
     SET LOCAL synchronous_commit = on";

/// A connection that is used for nothing but this process's lease.
///
/// After any error, or when a call was given up half-way, the session is to be dropped: that closes its socket at once,
/// without a word to the other side.
#[derive(Debug)]
pub struct LeaseSession {
    connection: PgConnection,
}

impl LeaseSession {
    /// Opens the session within `deadline`.
    pub async fn open(database: &Database, deadline: Duration) -> Result<Self, Error> {
        Ok(Self {
            connection: database.open(deadline).await?,
        })
    }

    /// One attempt to acquire a slot (docs/spec/leases.md 5.3). The caller sets the deadline, and notes both clocks
    /// before it calls.
    pub async fn acquire(&mut self, wanted: Wanted, policy: &Policy, instance: Instance) -> Result<Answer, Error> {
        let mut transaction = self.connection.begin_with(BEGIN).await?;
        let answer = slots::acquire(&mut transaction, wanted, policy, instance).await?;
        match answer {
            Answer::Granted(_) => transaction.commit().await?,
            Answer::Reserved(_) => transaction.rollback().await?,
        }
        Ok(answer)
    }

    /// One attempt to renew (docs/spec/leases.md 5.4), as above. [`Error::RowsAffected`] says that the lease is gone.
    pub async fn renew(&mut self, grant: &Grant) -> Result<(), Error> {
        let mut transaction = self.connection.begin_with(BEGIN).await?;
        slots::renew(&mut transaction, grant).await?;
        transaction.commit().await?;
        Ok(())
    }
}
