//! The session that holds this process's session locks (docs/spec/leases.md 5.5).

use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::claim::Claim;
use crate::catalog::connect::Database;
use crate::catalog::error::{Error, Refusal};
use crate::catalog::locks::{CLASS, Lock, Mode};
use crate::catalog::{identity, policy, slots};
use crate::model::member::Slot;

/// A server process that serves, or served, a session of ours. The start tells it from a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    pid: i32,
    started: OffsetDateTime,
}

/// A connection that holds the session locks of a [`Claim`] and is used for nothing else.
///
/// After any error, or when a call was given up half-way, the session is to be dropped: that closes its socket at once,
/// without a word to the other side.
#[derive(Debug)]
pub struct OwnershipSession {
    connection: PgConnection,
    claim: Claim,
}

impl OwnershipSession {
    /// Opens the session within `deadline`. It holds nothing yet.
    pub async fn open(database: &Database, claim: Claim, deadline: Duration) -> Result<Self, Error> {
        Ok(Self {
            connection: database.open(deadline).await?,
            claim,
        })
    }

    /// The server process behind this session.
    pub async fn backend(&mut self) -> Result<Backend, Error> {
        let row = sqlx::query!(
            r#"SELECT pid AS "pid!", backend_start AS "started!" FROM pg_stat_activity WHERE pid = pg_backend_pid()"#
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(Backend {
            pid: row.pid,
            started: row.started,
        })
    }

    /// Takes everything that the claim consists of, each step without waiting (docs/spec/leases.md 5.6 step 5; the
    /// first probe is the caller's). `storage` is the id of the data directory.
    ///
    /// Fails with [`Error::Refused`] at the first step that is refused; what was taken before goes when the session is
    /// dropped. `earlier` are backends of earlier sessions of this very process: where only they stand in the way, the
    /// database is asked to end them, and the error is [`Error::Lingering`].
    pub async fn take(&mut self, storage: Uuid, earlier: &[Backend]) -> Result<(), Error> {
        for &(lock, mode) in self.claim.locks() {
            if !lock.try_in_session(mode, &mut self.connection).await? {
                return Err(self.why_refused(lock, mode, earlier).await?);
            }
            if self.claim == Claim::Standalone
                && lock == Lock::Profile
                && policy::is_stored(&mut self.connection).await?
            {
                return Err(Refusal::PolicyStored.into());
            }
        }
        if self.claim == Claim::Maintenance {
            let live = slots::live(&mut self.connection).await?;
            if !live.is_empty() {
                return Err(Refusal::LeasesLive(live.into_iter().map(Slot::number).collect()).into());
            }
        }
        if self.claim.stores_identity() {
            identity::store_if_none(&mut self.connection, storage).await?;
        }
        identity::require(&mut self.connection, storage).await
    }

    /// Counts over the same connection that all locks are still granted to its own backend; otherwise
    /// [`Error::LocksGone`].
    pub async fn probe(&mut self) -> Result<(), Error> {
        let (keys, modes): (Vec<i32>, Vec<String>) = self
            .claim
            .locks()
            .iter()
            .map(|(lock, mode)| (lock.key(), mode.in_pg_locks().to_owned()))
            .unzip();
        let granted = sqlx::query_scalar!(
            r#"SELECT count(*) AS "granted!"
                 FROM unnest($1::integer[], $2::text[]) AS wanted (key, mode)
                 JOIN pg_locks AS held
                   ON held.locktype = 'advisory' AND held.pid = pg_backend_pid() AND held.granted
                  AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND held.classid = $3::integer::oid AND held.objid = wanted.key::oid AND held.objsubid = 2
                  AND held.mode = wanted.mode"#,
            &keys,
            &modes,
            CLASS,
        )
        .fetch_one(&mut self.connection)
        .await?;
        if usize::try_from(granted) == Ok(keys.len()) {
            Ok(())
        } else {
            Err(Error::LocksGone)
        }
    }

    /// Keeps a statement running on the server for `span`, so that the end of the session is noticed when it happens
    /// and not at the next probe. It may be given up half-way: the next call reads its late answer away.
    pub async fn watch(&mut self, span: Duration) -> Result<(), Error> {
        sqlx::query!("SELECT pg_sleep($1)", span.as_secs_f64())
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// Gives all locks back; when it returns, they are free. Without it they go when the server notices the end of the
    /// connection, within about 100 ms.
    pub async fn release(mut self) -> Result<(), Error> {
        sqlx::query!("SELECT pg_advisory_unlock_all()")
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    async fn why_refused(&mut self, lock: Lock, mode: Mode, earlier: &[Backend]) -> Result<Error, Error> {
        let refused = Claim::refusal(lock).into();
        if earlier.is_empty() {
            return Ok(refused);
        }
        let holders = sqlx::query!(
            r#"SELECT held.pid AS "pid!", session.backend_start AS "started?"
                 FROM pg_locks AS held LEFT JOIN pg_stat_activity AS session USING (pid)
                WHERE held.locktype = 'advisory' AND held.granted AND held.pid <> pg_backend_pid()
                  AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND held.classid = $1::integer::oid AND held.objid = $2::integer::oid AND held.objsubid = 2
                  AND (held.mode = 'ExclusiveLock' OR $3)"#,
            CLASS,
            lock.key(),
            mode == Mode::Exclusive,
        )
        .fetch_all(&mut self.connection)
        .await?;
        let ours = |pid, started| earlier.iter().any(|b| b.pid == pid && Some(b.started) == started);
        if holders.iter().any(|holder| !ours(holder.pid, holder.started)) {
            return Ok(refused);
        }
        for backend in earlier {
            sqlx::query!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2",
                backend.pid,
                backend.started,
            )
            .fetch_optional(&mut self.connection)
            .await?;
        }
        Ok(Error::Lingering)
    }
}
