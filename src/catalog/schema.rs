//! Whether the database's schema is the one that this program was built for (docs/spec/leases.md 5.6 step 3).

use std::collections::BTreeSet;

use sqlx::PgConnection;
use sqlx::migrate::Migrator;

use super::error::Error;

/// The migrations that this program was built with. Only `migrate` runs them.
pub static MIGRATIONS: Migrator = sqlx::migrate!();

/// Checks that all migrations are applied and none is newer; at start, and again in readiness, so that an old process
/// beside a migrated database turns not-ready by itself.
///
/// Fails with [`Error::SchemaOlder`] or [`Error::SchemaNewer`]. Needs SELECT on `_sqlx_migrations`.
pub async fn check(connection: &mut PgConnection) -> Result<(), Error> {
    compare(
        MIGRATIONS.iter().map(|migration| migration.version),
        applied(connection).await?,
    )
}

/// Versions of the migrations that were applied completely. The statements are not checked at compile time, because
/// the table may be missing.
async fn applied(connection: &mut PgConnection) -> Result<BTreeSet<i64>, Error> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !exists {
        return Ok(BTreeSet::new());
    }
    let versions: Vec<i64> = sqlx::query_scalar("SELECT version FROM _sqlx_migrations WHERE success")
        .fetch_all(connection)
        .await?;
    Ok(versions.into_iter().collect())
}

fn compare(known: impl Iterator<Item = i64>, mut applied: BTreeSet<i64>) -> Result<(), Error> {
    let mut missing = false;
    for version in known {
        missing |= !applied.remove(&version);
    }
    if !applied.is_empty() {
        Err(Error::SchemaNewer)
    } else if missing {
        Err(Error::SchemaOlder)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_and_no_other() {
        let with = |applied: &[i64]| compare([1, 2].into_iter(), applied.iter().copied().collect());
        assert!(with(&[1, 2]).is_ok());
        assert!(matches!(with(&[]), Err(Error::SchemaOlder)));
        assert!(matches!(with(&[1]), Err(Error::SchemaOlder)));
        assert!(matches!(with(&[2]), Err(Error::SchemaOlder)));
        assert!(matches!(with(&[1, 2, 3]), Err(Error::SchemaNewer)));
        assert!(matches!(with(&[1, 3]), Err(Error::SchemaNewer)));
    }
}
