//! What is checked before anything is claimed.

use arkvory::catalog::connect::Database;
use arkvory::catalog::error::Error;
use arkvory::catalog::schema;
use arkvory::clock::{Clock as _, SystemClock};
use arkvory::model::failure::{Classify as _, Kind};
use sqlx::Executor as _;

use super::support::chaos::Chaos;
use super::{millis, support};

#[tokio::test]
async fn the_schema_must_be_the_programs() {
    let database = support::database().await;
    let mut connection = database.connect().await;
    schema::check(&mut connection).await.unwrap();
    connection
        .execute("INSERT INTO _sqlx_migrations VALUES (99990101000000, 'later', now(), true, '', 0)")
        .await
        .unwrap();
    assert!(matches!(schema::check(&mut connection).await, Err(Error::SchemaNewer)));
    connection
        .execute("DELETE FROM _sqlx_migrations WHERE version > 99990000000000 OR version = (SELECT min(version) FROM _sqlx_migrations)")
        .await
        .unwrap();
    assert!(matches!(schema::check(&mut connection).await, Err(Error::SchemaOlder)));
    connection.execute("DROP TABLE _sqlx_migrations").await.unwrap();
    let older = schema::check(&mut connection).await.unwrap_err();
    assert_eq!(older.kind(), Kind::Unavailable);
}

#[tokio::test]
async fn the_database_is_awaited_at_start() {
    let database = support::database().await;
    let chaos = Chaos::to(database.address()).await;
    let options = Database::new(&database.by_way_of(chaos.address()), "api").unwrap();
    chaos.refuse();
    tokio::time::sleep(millis(50)).await;
    let start = SystemClock.now();
    let (opened, ()) = tokio::join!(options.open_at_start(&SystemClock), async {
        tokio::time::sleep(millis(1_200)).await;
        chaos.restore();
    });
    let mut connection = opened.unwrap();
    assert!(SystemClock.now().since(start) >= millis(1_200));
    let name: String = sqlx::query_scalar("SELECT current_setting('application_name')")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(name, "arkvory-api");
    let timeout: String = sqlx::query_scalar("SELECT current_setting('statement_timeout')")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(timeout, "10s");
}

#[tokio::test]
async fn a_missing_database_is_not_awaited() {
    let database = support::database().await;
    let (server, _) = database.url.rsplit_once('/').unwrap();
    let url = format!("{server}/arkvory_no_such_database");
    let options = Database::new(&url, "api").unwrap();
    let start = SystemClock.now();
    let error = options.open_at_start(&SystemClock).await.unwrap_err();
    assert_eq!(error.sqlstate().as_deref(), Some("3D000"));
    assert!(SystemClock.now().since(start) < millis(3_000));
}
