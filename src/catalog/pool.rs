//! Connections for requests.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};

use super::connect::{self, Database};
use super::error::Error;

/// Longest wait for a free connection; behind it, 503 is the better answer.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for one answer of the database (docs/spec/environment.md 4.1).
const QUERY_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection is replaced after this time, so that one that is broken unseen does not stay for ever.
const LIFETIME: Duration = Duration::from_mins(30);

/// A pool of connections to the catalog.
#[derive(Clone, Debug)]
pub struct Catalog {
    pool: PgPool,
}

impl Catalog {
    /// A pool of at most `size` connections; none is opened yet.
    pub fn new(database: &Database, size: u32) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(size)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .max_lifetime(LIFETIME)
            .connect_lazy_with(database.options());
        Self { pool }
    }

    /// A connection, given back when it is dropped.
    pub async fn connection(&self) -> Result<PoolConnection<Postgres>, Error> {
        Ok(self.pool.acquire().await?)
    }

    /// Closes every connection; those in use are waited for.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Runs `work` with the time limit of one request to the database.
pub async fn within<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    connect::within(QUERY_TIMEOUT, work).await
}
