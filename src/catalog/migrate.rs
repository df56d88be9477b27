//! Changes the schema, and makes the logins that use it. Only the command `migrate` does either
//! (docs/spec/roles.md 1.2).

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::connect::Database;
use super::error::Error;
use super::locks::Lock;
use super::schema::MIGRATIONS;
use crate::clock::Clock;

/// Pause between two tries for the migration lock.
const LOCK_PAUSE: Duration = Duration::from_millis(250);

/// What a login may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything with rows, nothing with tables.
    Writer,
    /// Reads the catalog; writes its own lease.
    Reader,
}

/// A login that `migrate` keeps in order: name and password are those of the URL that its process uses.
pub struct Login {
    options: PgConnectOptions,
    password: String,
    rights: Rights,
}

impl Login {
    /// The login of a `postgres://name:password@…` URL.
    pub fn of(url: &str, rights: Rights) -> Result<Self, Error> {
        let options: PgConnectOptions = url.parse().map_err(|_| Error::Url)?;
        let parsed = reqwest::Url::parse(url).map_err(|_| Error::Url)?;
        let password = percent_encoding::percent_decode_str(parsed.password().ok_or(Error::Url)?);
        let password = password.decode_utf8().map_err(|_| Error::Url)?.into_owned();
        Ok(Self {
            options,
            password,
            rights,
        })
    }
}

/// Brings the schema up to date and the `logins` in order. Repeating it changes nothing. Returns how many migrations
/// were applied.
pub async fn migrate(database: &Database, logins: &[Login], clock: &dyn Clock) -> Result<usize, Error> {
    let mut guard = database.open_at_start(clock).await?;
    let mut lock = guard.begin().await?;
    // Tried, not waited for: a waiting statement would count against the statement timeout.
    while !Lock::Migration.try_in_transaction(&mut lock).await? {
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    let mut db = database.open_at_start(clock).await?;
    // Building an index may take longer than any request.
    sqlx::query!("SELECT set_config('statement_timeout', '0', false)")
        .fetch_one(&mut db)
        .await?;
    let before = applied(&mut db).await?;
    MIGRATIONS.run(&mut db).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error) | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => {
            Error::Driver(error)
        }
        sqlx::migrate::MigrateError::VersionMissing(_) | sqlx::migrate::MigrateError::VersionTooNew(..) => {
            Error::SchemaNewer
        }
        _ => Error::Inconsistent {
            table: "_sqlx_migrations",
            column: "checksum",
        },
    })?;
    let after = applied(&mut db).await?;
    for login in logins {
        let mut transaction = db.begin().await?;
        keep(&mut transaction, login).await?;
        transaction.commit().await?;
    }
    lock.commit().await?;
    Ok(after - before)
}

async fn applied(db: &mut PgConnection) -> Result<usize, Error> {
    let there = sqlx::query_scalar!(r#"SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "there!""#);
    if !there.fetch_one(&mut *db).await? {
        return Ok(0);
    }
    // Not checked at compile time: the table is sqlx's own.
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations WHERE success")
        .fetch_one(db)
        .await?;
    Ok(usize::try_from(count).unwrap_or(0))
}

async fn keep(db: &mut PgConnection, login: &Login) -> Result<(), Error> {
    let name = login.options.get_username();
    hide_statements(db).await?;
    let exists = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1) AS "exists!""#,
        name
    );
    let verb = if exists.fetch_one(&mut *db).await? {
        "ALTER"
    } else {
        "CREATE"
    };
    // Utility statements take no parameters, so the server quotes name and password itself.
    let statement = sqlx::query_scalar!(
        r#"SELECT format($1 || ' ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD %L', $2::text, $3::text) AS "s!""#,
        verb,
        name,
        login.password,
    );
    let statement = statement.fetch_one(&mut *db).await?;
    run(db, statement).await?;

    let grants: &[&str] = match login.rights {
        Rights::Writer => &["SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"],
        Rights::Reader => &[
            "SELECT ON ALL TABLES IN SCHEMA public",
            "INSERT, UPDATE ON arkvory_gateway_leases",
        ],
    };
    revoke_all(db, name).await?;
    for grant in grants {
        let statement = sqlx::query_scalar!(
            r#"SELECT format('GRANT ' || $1 || ' TO %I', $2::text) AS "s!""#,
            grant,
            name
        );
        let statement = statement.fetch_one(&mut *db).await?;
        run(db, statement).await?;
    }
    let statement = sqlx::query_scalar!(
        r#"SELECT format('REVOKE INSERT, UPDATE, DELETE ON _sqlx_migrations FROM %I', $1::text) AS "s!""#,
        name
    );
    let statement = statement.fetch_one(&mut *db).await?;
    run(db, statement).await
}

async fn revoke_all(db: &mut PgConnection, name: &str) -> Result<(), Error> {
    let statement = sqlx::query_scalar!(
        r#"SELECT format('REVOKE ALL ON ALL TABLES IN SCHEMA public FROM %I', $1::text) AS "s!""#,
        name
    );
    let statement = statement.fetch_one(&mut *db).await?;
    run(db, statement).await
}

/// Keeps the statement with the password out of the server's log, where the login may set that.
async fn hide_statements(db: &mut PgConnection) -> Result<(), Error> {
    let superuser = sqlx::query_scalar!(r#"SELECT current_setting('is_superuser') = 'on' AS "is!""#);
    if superuser.fetch_one(&mut *db).await? {
        sqlx::query!("SELECT set_config('log_statement', 'none', true) AS a, set_config('log_min_error_statement', 'panic', true) AS b")
            .fetch_one(db)
            .await?;
    }
    Ok(())
}

async fn run(db: &mut PgConnection, statement: String) -> Result<(), Error> {
    sqlx::query(AssertSqlSafe(statement)).execute(db).await?;
    Ok(())
}
