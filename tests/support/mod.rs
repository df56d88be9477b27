//! What tests against a real PostgreSQL share: a database for each test, and a link that can be disturbed.

pub(crate) mod chaos;

use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arkvory::catalog::schema::MIGRATIONS;
use sha2::{Digest as _, Sha256};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use testcontainers::core::IntoContainerPort as _;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _};
use tokio::sync::Mutex;

/// A server to use instead of a container, with the URL of a superuser.
const SERVER: &str = "ARKVORY_TEST_DATABASE_URL";

/// The container, while a test of this process uses it.
static RUNNING: Mutex<Weak<ContainerAsync<GenericImage>>> = Mutex::const_new(Weak::new());

/// A migrated database of one test's own. It is dropped with this value.
pub(crate) struct TestDatabase {
    /// Where it is, for its owner.
    pub(crate) url: String,
    name: String,
    server: Server,
}

#[derive(Clone)]
struct Server {
    url: String,
    // Stops with its last user.
    _container: Option<Arc<ContainerAsync<GenericImage>>>,
}

/// A fresh database with all migrations.
pub(crate) async fn database() -> TestDatabase {
    let server = server().await;
    let template = template(&server).await;
    let name = format!("arkvory_test_{}", uuid::Uuid::new_v4().simple());
    run(
        &server.url,
        &format!(r#"CREATE DATABASE "{name}" TEMPLATE "{template}""#),
    )
    .await;
    TestDatabase {
        url: with_name(&server.url, &name),
        name,
        server,
    }
}

impl TestDatabase {
    /// Another connection, for looking and meddling.
    pub(crate) async fn connect(&self) -> PgConnection {
        connect(&self.url).await
    }

    /// The server's host and port.
    pub(crate) fn address(&self) -> String {
        authority(&self.url).1.to_owned()
    }

    /// The URL by way of another address.
    pub(crate) fn by_way_of(&self, address: impl std::fmt::Display) -> String {
        let (before, old) = authority(&self.url);
        let after = &self.url[before.len() + old.len()..];
        format!("{before}{address}{after}")
    }

    /// Ends all sessions of this database but the one that asks.
    pub(crate) async fn terminate_sessions(&self, connection: &mut PgConnection) {
        connection
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            .await
            .expect("terminate");
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let statement = format!(r#"DROP DATABASE IF EXISTS "{}" WITH (FORCE)"#, self.name);
        let url = self.server.url.clone();
        // The test's own runtime may be ending. What a failure leaves behind goes with the server.
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(async {
                    if let Ok(mut connection) = PgConnection::connect(&url).await {
                        let _ = connection.execute(AssertSqlSafe(statement)).await;
                    }
                });
            }
        });
        let _ = cleaner.join();
    }
}

/// The part before host and port, and these.
fn authority(url: &str) -> (&str, &str) {
    let start = url.find("://").expect("a scheme") + 3;
    let end = start + url[start..].find('/').expect("a database");
    let host = url[start..end].find('@').map_or(start, |at| start + at + 1);
    (&url[..host], &url[host..end])
}

fn with_name(url: &str, name: &str) -> String {
    let (before, address) = authority(url);
    let options = url.find('?').map_or("", |at| &url[at..]);
    format!("{before}{address}/{name}{options}")
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("connect")
}

async fn run(url: &str, statement: &str) {
    connect(url)
        .await
        .execute(AssertSqlSafe(statement))
        .await
        .expect(statement);
}

/// The server of `ARKVORY_TEST_DATABASE_URL`, or a container that the tests of one process share.
async fn server() -> Server {
    #[expect(clippy::disallowed_methods, reason = "tests are not configured by config")]
    if let Ok(url) = std::env::var(SERVER) {
        return Server { url, _container: None };
    }
    let mut running = RUNNING.lock().await;
    let container = if let Some(container) = running.upgrade() {
        container
    } else {
        let container = GenericImage::new("postgres", "17-trixie")
            .with_exposed_port(5432.tcp())
            .with_env_var("POSTGRES_HOST_AUTH_METHOD", "trust")
            .with_cmd(["postgres", "-c", "fsync=off", "-c", "max_connections=300"])
            .start()
            .await
            .expect("Docker runs, or ARKVORY_TEST_DATABASE_URL is set");
        Arc::new(container)
    };
    *running = Arc::downgrade(&container);
    let port = container.get_host_port_ipv4(5432).await.expect("a published port");
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    for _ in 0..600 {
        if PgConnection::connect(&url).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Server {
        url,
        _container: Some(container),
    }
}

/// A migrated database to copy from, made once per server and set of migrations. Tests run in many processes, so a lock
/// of the server decides who makes it.
async fn template(server: &Server) -> String {
    let mut hash = Sha256::new();
    for migration in MIGRATIONS.iter() {
        hash.update(&migration.checksum);
    }
    let mut name = "arkvory_template_".to_owned();
    for byte in &hash.finalize()[..8] {
        write!(name, "{byte:02x}").expect("write to a text");
    }
    let mut admin = connect(&server.url).await;
    admin
        .execute("SELECT pg_advisory_lock(4273001)")
        .await
        .expect("the lock of the template");
    let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
        .bind(&name)
        .fetch_one(&mut admin)
        .await
        .expect("pg_database");
    if !exists {
        let making = format!("{name}_making");
        run(
            &server.url,
            &format!(r#"DROP DATABASE IF EXISTS "{making}" WITH (FORCE)"#),
        )
        .await;
        run(&server.url, &format!(r#"CREATE DATABASE "{making}""#)).await;
        let mut made = connect(&with_name(&server.url, &making)).await;
        MIGRATIONS.run(&mut made).await.expect("migrate");
        made.close().await.expect("close");
        run(&server.url, &format!(r#"ALTER DATABASE "{making}" RENAME TO "{name}""#)).await;
    }
    // Closing waits until the server is told, which frees the lock.
    admin.close().await.expect("close");
    name
}
