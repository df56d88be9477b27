//! The writer dies in the middle of an upload (docs/spec/storage.md 7.2.11 and docs/spec/cases.md 9.10.7).

use std::time::Duration;

use sqlx::Connection as _;

use crate::eventually::eventually;
use crate::site::{Site, key, noise, sha256};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";

#[tokio::test]
async fn an_upload_that_a_crash_cut_leaves_nothing() {
    let bytes = noise(1, 500_000);
    let length = format!("Content-Length: {}\r\n", bytes.len());
    let sum = format!("{length}X-Checksum-Sha256: {}\r\n", sha256(&bytes));
    let chunked = "Transfer-Encoding: chunked\r\n".to_owned();
    let site = Site::new().await;
    for (path, more) in [("declared", &sum), ("length", &length), ("chunked", &chunked)] {
        let mut writer = site.standalone().start().await;
        let mut wire = Wire::open(&writer).await;
        wire.send(Wire::head("PUT", &format!("{R}/raw/{path}"), key::WRITER, more))
            .await;
        if path == "chunked" {
            wire.send("7a120\r\n").await;
        }
        wire.send(&bytes[..400_000]).await;
        eventually(Duration::from_secs(2), "it is being received", async || {
            !site.staged().is_empty()
        })
        .await;
        writer.kill();
        drop(writer);
        site.released().await;
        assert!(!site.staged().is_empty(), "a crash cleans nothing up");
        assert_eq!(site.uploads("pending").await, i64::from(path == "declared"), "{path}");

        let writer = site.standalone().allow("upload.recovered").start().await;
        assert!(site.is_clean().await, "{path}");
        let url = format!("{R}/raw/{path}");
        writer
            .get(&url)
            .key(key::READER)
            .answer()
            .await
            .expect(404, "not_found", "");
        let again = writer
            .ask("PUT", &url)
            .key(key::WRITER)
            .header("X-Checksum-Sha256", &sha256(&bytes))
            .body(bytes.clone());
        assert_eq!(again.answer().await.status, 201);
        assert!(writer.get(&url).key(key::READER).answer().await.body == bytes);
        assert!(site.is_clean().await);
        drop(writer);
        site.released().await;
    }
    assert_eq!(site.uploads("available").await, 3);
    // The bytes of a cancelled upload don't count any more.
    assert_eq!(site.reserved_bytes().await, 1_500_000);
}

/// docs/spec/storage.md 7.2.7: the file has its final name, the database does not know it yet.
#[tokio::test]
async fn a_file_that_was_stored_and_not_committed_is_taken_back() {
    let site = Site::new().await;
    let bytes = noise(2, 100_000);
    for round in 0..2 {
        let mut writer = site.standalone().allow("upload.recovered").start().await;
        let before = site.blobs();
        // Nobody can change paths now, so the upload stands right before its commit.
        let mut db = site.db().await;
        let mut holding = db.begin().await.unwrap();
        sqlx::query("LOCK TABLE arkvory_asset_revisions IN EXCLUSIVE MODE")
            .execute(&mut *holding)
            .await
            .unwrap();
        let mut wire = Wire::open(&writer).await;
        let length = format!("Content-Length: {}\r\n", bytes.len());
        wire.send(Wire::head("PUT", &format!("{R}/raw/stored"), key::WRITER, &length))
            .await;
        wire.send(&bytes).await;
        eventually(Duration::from_secs(3), "the file has its name", async || {
            site.blobs().len() > before.len()
        })
        .await;
        let id = site.blobs().difference(&before).next().unwrap().clone();
        assert_eq!(site.uploads("pending").await, 1);
        // Whoever knows the id does not get it.
        let early = writer
            .get(&format!("{R}/artifacts/{id}/content"))
            .key(key::READER)
            .answer()
            .await;
        early.expect(404, "not_found", "");
        if round == 0 {
            writer.kill();
            holding.rollback().await.unwrap();
            drop(writer);
            site.released().await;
            let writer = site.standalone().allow("upload.recovered").start().await;
            assert!(site.is_clean().await);
            writer
                .get(&format!("{R}/raw/stored"))
                .key(key::READER)
                .answer()
                .await
                .expect(404, "not_found", "");
            drop(writer);
            site.released().await;
        } else {
            // The client goes instead: what was begun ends by itself, and whole (docs/spec/storage.md 7.2).
            wire.reset();
            holding.rollback().await.unwrap();
            eventually(Duration::from_secs(3), "it is published", async || {
                site.uploads("available").await == 1
            })
            .await;
            assert!(
                writer
                    .get(&format!("{R}/raw/stored"))
                    .key(key::READER)
                    .answer()
                    .await
                    .body
                    == bytes
            );
            assert!(site.is_clean().await);
        }
    }
}

/// What was answered with 201 is there after a crash.
#[tokio::test]
async fn published_files_survive_a_crash() {
    let site = Site::new().await;
    let mut writer = site.standalone().start().await;
    let files: Vec<Vec<u8>> = (0..10).map(|n| noise(10 + n, 30_000)).collect();
    for (n, bytes) in files.iter().enumerate() {
        let put = writer
            .ask("PUT", &format!("{R}/raw/file-{n}"))
            .key(key::WRITER)
            .body(bytes.clone());
        assert_eq!(put.answer().await.status, 201);
    }
    writer.kill();
    drop(writer);
    site.released().await;
    let writer = site.standalone().start().await;
    assert!(site.is_clean().await);
    for (n, bytes) in files.iter().enumerate() {
        assert!(
            writer
                .get(&format!("{R}/raw/file-{n}"))
                .key(key::READER)
                .answer()
                .await
                .body
                == *bytes
        );
    }
}

/// docs/spec/leases.md 5.6: a crashed writer of the gateway profile comes back under its slot, and its readers serve on.
#[tokio::test]
async fn readers_outlive_their_writer() {
    let site = Site::new().await;
    let mut writer = site.writer().fast().start().await;
    let reader = site.reader(1).fast().start().await;
    let put = |process: &crate::process::Process, path: &str| {
        process
            .ask("PUT", &format!("{R}/raw/{path}"))
            .key(key::WRITER)
            .body(path.as_bytes().to_vec())
            .answer()
    };
    assert_eq!(put(&writer, "before").await.status, 201);
    writer.kill();
    let read = async |path: &str| reader.get(&format!("{R}/raw/{path}")).key(key::READER).answer().await;
    assert!(read("before").await.body == "before");
    site.released().await;
    let writer = site.writer().fast().start().await;
    assert!(read("before").await.body == "before");
    assert_eq!(put(&writer, "after").await.status, 201);
    assert!(read("after").await.body == "after");
    let generation: i64 = sqlx::query_scalar("SELECT generation FROM arkvory_gateway_leases WHERE slot = 0")
        .fetch_one(&mut site.db().await)
        .await
        .unwrap();
    assert_eq!(generation, 2);
}
