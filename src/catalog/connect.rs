//! Ways into PostgreSQL: options for every connection, and dedicated connections under a deadline.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection};

use super::error::Error;
use crate::clock::Clock;
use crate::model::failure::{Classify, Kind};

/// Longest time to open a connection (docs/spec/environment.md 4.1).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the database is tried at start before the process gives up (docs/spec/leases.md 5.6).
pub const PATIENCE_AT_START: Duration = Duration::from_mins(1);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Settings that the server applies to every session of ours.
///
/// - `statement_timeout`: 10 s (docs/spec/environment.md 4.1).
/// - `tcp_keepalives_*`: the driver can't set them on this side, where deadlines do their work anyway; on the server's
///   side they free the session locks of a dead host after 25 s (docs/spec/leases.md 5.8).
/// - `client_connection_check_interval`: the server notices within 100 ms that this process has died, even while it runs
///   a statement for it, and frees its locks (needs PostgreSQL 14).
const SESSION: [(&str, &str); 5] = [
    ("statement_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("client_connection_check_interval", "100ms"),
];

/// Where the database is and how this process introduces itself.
#[derive(Clone)]
pub struct Database {
    options: PgConnectOptions,
}

impl Database {
    /// The database of a `postgres://` URL, for a process of this `role` (`api`, `reader`, `worker`, `migrate`, …).
    ///
    /// Fails with [`Error::Url`] when the text is no usable URL. Statements are not logged by the driver: their text
    /// and their values stay out of the log lines.
    pub fn new(url: &str, role: &str) -> Result<Self, Error> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(Error::Url);
        }
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| Error::Url)?
            .application_name(&format!("arkvory-{role}"))
            .options(SESSION)
            .disable_statement_logging();
        Ok(Self { options })
    }

    /// The options, for a pool.
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// Whether the way to the database leaves this host and may be read by others.
    pub fn exposes_plaintext(&self) -> bool {
        let host = self.options.get_host();
        let here = host.starts_with('/')
            || host.eq_ignore_ascii_case("localhost")
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        let plain = matches!(
            self.options.get_ssl_mode(),
            PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer
        );
        plain && !here && self.options.get_socket().is_none()
    }

    /// Opens a connection outside every pool; `deadline` includes name resolution, TLS and sign-in.
    pub async fn open(&self, deadline: Duration) -> Result<PgConnection, Error> {
        within(deadline, async { Ok(PgConnection::connect_with(&self.options).await?) }).await
    }

    /// Opens a connection at start: as long as the database is away it is tried again, for 60 s, with pauses from
    /// 0.1 to 2 s. Anything else than absence (a refused login, for one) ends the attempts at once.
    pub async fn open_at_start(&self, clock: &dyn Clock) -> Result<PgConnection, Error> {
        let began = clock.now();
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.open(CONNECT_TIMEOUT).await {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if error.kind() != Kind::Unavailable || clock.now().since(began) + pause >= PATIENCE_AT_START {
                return Err(error);
            }
            tracing::warn!(
                code = "database.awaited",
                errorName = error.error_name(),
                sqlstate = error.sqlstate().as_deref(),
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

/// Runs `work` with a deadline of this side: a frozen link must not hold it up.
///
/// When the time is over the work is dropped where it stands. A connection that the work has borrowed is then in an
/// unknown state; its owner drops it, which destroys the socket without waiting for the other side.
pub async fn within<T>(deadline: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(deadline, work)
        .await
        .unwrap_or(Err(Error::Deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let database = Database::new("postgres://user:secret@127.0.0.1:1/db", "api").unwrap();
        assert_eq!(format!("{database:?}"), "Database { .. }");
        assert_eq!(database.options().get_application_name(), Some("arkvory-api"));
        for bad in [
            "mysql://user:secret@127.0.0.1/db",
            "postgres://user:secret@127.0.0.1:x/db",
        ] {
            let error = Database::new(bad, "api").unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidInput);
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_frozen_link_costs_no_more_than_the_deadline() {
        let endless = std::future::pending::<Result<(), Error>>();
        assert!(matches!(
            within(Duration::from_secs(1), endless).await,
            Err(Error::Deadline)
        ));
    }
}
