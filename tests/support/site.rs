//! An installation: a database, a data directory and a keys file. Processes are started on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use tempfile::TempDir;

use super::eventually::eventually;
use super::process::Launch;
use super::support::{TestDatabase, database};

/// Secrets of the keys file.
pub(crate) mod key {
    /// Reads and writes `releases`, administrates. Principal `ci`.
    pub(crate) const WRITER: &str = "writer-key-0123456789abcdef0123456789abcdef";
    /// Reads `releases`. Principal `team`.
    pub(crate) const READER: &str = "reader-key-0123456789abcdef0123456789abcdef";
    /// Has no rights at all. Principal `deployment-health`.
    pub(crate) const HEALTH: &str = "health-key-0123456789abcdef0123456789abcdef";
    /// Reads `releases`. Principal `twin`, as the next one.
    pub(crate) const TWIN: &str = "twin-key-a-0123456789abcdef0123456789abcdef";
    /// Reads `releases`. Principal `twin`, as the one before.
    pub(crate) const OTHER_TWIN: &str = "twin-key-b-0123456789abcdef0123456789abcdef";
    /// Reads and writes `attic`. Principal `archivist`.
    pub(crate) const ATTIC: &str = "attic-key-0123456789abcdef0123456789abcdef0";
    /// In no keys file.
    pub(crate) const UNKNOWN: &str = "unknown-key-0123456789abcdef0123456789abcdef";

    /// All that may never appear in a log, a metric or an answer.
    pub(crate) const ALL: [&str; 7] = [WRITER, READER, HEALTH, TWIN, OTHER_TWIN, ATTIC, UNKNOWN];
}

/// Lower-case hexadecimal SHA-256.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes that look random and are the same in each run; no two windows of them are alike.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// One installation.
pub(crate) struct Site {
    /// Its database.
    pub(crate) database: TestDatabase,
    dir: TempDir,
    data: PathBuf,
}

impl Site {
    /// A new installation with a migrated database and nothing else.
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        Self::with_data(dir, data).await
    }

    /// The same, with the data directory at `data`.
    pub(crate) async fn with_data(dir: TempDir, data: PathBuf) -> Self {
        fs::write(dir.path().join("keys.json"), keys()).unwrap();
        Self {
            database: database().await,
            dir,
            data,
        }
    }

    /// The data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// A folder for whatever else a test needs.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The keys file.
    pub(crate) fn keys_file(&self) -> PathBuf {
        self.dir.path().join("keys.json")
    }

    /// A standalone writer.
    pub(crate) fn standalone(&self) -> Launch<'_> {
        Launch::new(self).set("ARKVORY_ROLE", "api")
    }

    /// A writer of the gateway profile: slot 0 of 3, with 3 * 65536 bytes/s in total and per principal
    /// (docs/spec/cases.md).
    pub(crate) fn writer(&self) -> Launch<'_> {
        Launch::new(self).set("ARKVORY_ROLE", "api").gateway("0")
    }

    /// A reader on a fixed slot. Its local limits are twice the shared total, which must not raise its share.
    pub(crate) fn reader(&self, slot: u8) -> Launch<'_> {
        self.reader_on(&slot.to_string())
    }

    /// A reader that takes any slot.
    pub(crate) fn auto_reader(&self) -> Launch<'_> {
        self.reader_on("auto")
    }

    fn reader_on(&self, slot: &str) -> Launch<'_> {
        let doubled = (2 * 3 * 65536).to_string();
        Launch::new(self)
            .set("ARKVORY_ROLE", "reader")
            .gateway(slot)
            .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", &doubled)
            .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", &doubled)
    }

    /// A connection to the database.
    pub(crate) async fn db(&self) -> PgConnection {
        self.database.connect().await
    }

    /// How many uploads have this status.
    pub(crate) async fn uploads(&self, status: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM arkvory_uploads WHERE status = $1")
            .bind(status)
            .fetch_one(&mut self.db().await)
            .await
            .unwrap()
    }

    /// Bytes that count against the capacity.
    pub(crate) async fn reserved_bytes(&self) -> i64 {
        sqlx::query_scalar("SELECT COALESCE(sum(reserved_bytes), 0)::bigint FROM arkvory_repository_usage")
            .fetch_one(&mut self.db().await)
            .await
            .unwrap()
    }

    /// Waits until the server has noticed that a writer ended, and has freed its locks. A successor that comes earlier is
    /// refused with `busy` (docs/spec/leases.md 5.6).
    pub(crate) async fn released(&self) {
        let mut db = self.db().await;
        eventually(Duration::from_secs(3), "the writer's sessions end", async || {
            let query = "SELECT count(*) FROM pg_stat_activity
                         WHERE datname = current_database() AND application_name = 'arkvory-api'";
            sqlx::query_scalar::<_, i64>(query).fetch_one(&mut db).await.unwrap() == 0
        })
        .await;
    }

    /// Whether a refused or broken upload has left nothing at all: no staged file, no blob that the database does not
    /// know, no pending row, no reserved byte beside those of published artifacts (docs/spec/storage.md 7.2).
    pub(crate) async fn is_clean(&self) -> bool {
        let mut db = self.db().await;
        let (pending, unreclaimed, published): (i64, i64, i64) = sqlx::query_as(
            "SELECT count(*) FILTER (WHERE status = 'pending'),
                    count(*) FILTER (WHERE status = 'cancelled' AND reclaimed_at IS NULL),
                    COALESCE(sum(size) FILTER (WHERE status = 'available'), 0)::bigint FROM arkvory_uploads",
        )
        .fetch_one(&mut db)
        .await
        .unwrap();
        let known: Vec<uuid::Uuid> = sqlx::query_scalar("SELECT id FROM arkvory_uploads WHERE status = 'available'")
            .fetch_all(&mut db)
            .await
            .unwrap();
        let known: BTreeSet<String> = known.iter().map(uuid::Uuid::to_string).collect();
        pending == 0
            && unreclaimed == 0
            && published == self.reserved_bytes().await
            && self.staged().is_empty()
            && self.blobs() == known
    }

    /// Names of the finished files.
    pub(crate) fn blobs(&self) -> BTreeSet<String> {
        names(&self.data.join("blobs"))
    }

    /// A finished file.
    pub(crate) fn blob(&self, id: &str) -> PathBuf {
        self.data.join("blobs").join(id)
    }

    /// Files being written; a folder of an upload counts as long as it is there.
    pub(crate) fn staged(&self) -> BTreeSet<String> {
        names(&self.data.join("staging"))
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The keys file (docs/spec/environment.md 4.6).
fn keys() -> String {
    let entry = |id: &str, secret: &str, repositories: &[&str], permissions: &[&str], administrator: bool| {
        serde_json::json!({
            "id": id, "sha256": sha256(secret), "repositories": repositories, "permissions": permissions,
            "administrator": administrator
        })
    };
    serde_json::json!([
        entry("ci", key::WRITER, &["releases"], &["read", "write"], true),
        entry("team", key::READER, &["releases"], &["read"], false),
        entry("deployment-health", key::HEALTH, &[], &[], false),
        entry("twin", key::TWIN, &["releases"], &["read"], false),
        entry("twin", key::OTHER_TWIN, &["releases"], &["read"], false),
        entry("archivist", key::ATTIC, &["attic"], &["read", "write"], false),
    ])
    .to_string()
}
