//! A volume without room: a small one in memory, so that it is really full (docs/spec/cases.md 9.10.6). Needs root.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::eventually::eventually;
use crate::process::Process;
use crate::site::{Site, key, noise, sha256};
use crate::talk::{Answer, Ask};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";
const MIB: usize = 1 << 20;

/// A file system of 16 MiB; unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir(at).unwrap();
        run(
            "mount",
            &["-t", "tmpfs", "-o", "size=16m", "tmpfs", at.to_str().unwrap()],
        );
        Self(at.to_owned())
    }

    /// Leaves `left` bytes free.
    fn fill(&self, left: usize) -> PathBuf {
        let found = rustix::fs::statvfs(&self.0).unwrap();
        let free = usize::try_from(found.f_bavail * found.f_frsize).unwrap();
        let ballast = self.0.join("ballast");
        std::fs::write(&ballast, vec![0; free - left]).unwrap();
        ballast
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: a process that dies with the test may still have a file open.
        run("umount", &["--lazy", self.0.to_str().unwrap()]);
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} needs root: {output:?}");
}

/// A site on a small volume.
async fn small() -> (Small, Site) {
    let dir = tempfile::tempdir().unwrap();
    let mounted = dir.path().join("small");
    let small = Small::mount(&mounted);
    let site = Site::with_data(dir, mounted.join("data")).await;
    (small, site)
}

/// Sends a file that may be refused before it was read, and takes the answer all the same.
async fn send(writer: &Process, path: &str, how: How, bytes: &[u8]) -> Answer {
    let length = format!("Content-Length: {}\r\n", bytes.len());
    let head = match how {
        How::Declared => format!("{length}X-Checksum-Sha256: {}\r\n", sha256(bytes)),
        How::Length => length,
        How::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
    };
    let mut wire = Wire::open(writer).await;
    wire.send(Wire::head("PUT", &format!("{R}/raw/{path}"), key::WRITER, &head))
        .await;
    if how == How::Chunked {
        wire.send(format!("{:x}\r\n", bytes.len())).await;
    }
    wire.try_send(bytes).await;
    wire.answer().await.expect("the answer arrives")
}

/// What an upload tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Declared,
    Length,
    Chunked,
}

const EVERY_WAY: [How; 3] = [How::Declared, How::Length, How::Chunked];

fn put(writer: &Process, path: &str) -> Ask {
    writer.ask("PUT", &format!("{R}/raw/{path}")).key(key::WRITER)
}

async fn works(site: &Site, writer: &Process, path: &str) {
    let bytes = noise(99, 100_000);
    assert_eq!(put(writer, path).body(bytes.clone()).answer().await.status, 201);
    assert!(
        writer
            .get(&format!("{R}/raw/{path}"))
            .key(key::READER)
            .answer()
            .await
            .body
            == bytes
    );
    assert!(site.is_clean().await);
}

#[tokio::test]
async fn what_does_not_fit_is_507_and_leaves_nothing() {
    let (_small, site) = small().await;
    let writer = site.standalone().start().await;
    let large = noise(1, 20 * MIB);
    for how in EVERY_WAY {
        send(&writer, "large", how, &large)
            .await
            .expect(507, "capacity_exceeded", "storage_full");
        assert!(site.is_clean().await, "{how:?}");
        assert!(site.blobs().is_empty() && site.staged().is_empty(), "{how:?}");
        let absent = writer.get(&format!("{R}/raw/large")).key(key::READER).answer().await;
        absent.expect(404, "not_found", "");
    }
    works(&site, &writer, "after").await;
}

/// The room was there when the upload began; then the disk itself says no.
#[tokio::test]
async fn a_disk_that_fills_up_meanwhile_is_507() {
    let (small, site) = small().await;
    let writer = site.standalone().start().await;
    let bytes = noise(2, 8 * MIB);
    let sum = format!(
        "Content-Length: {}\r\nX-Checksum-Sha256: {}\r\n",
        bytes.len(),
        sha256(&bytes)
    );
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("PUT", &format!("{R}/raw/x"), key::WRITER, &sum))
        .await;
    wire.send(&bytes[..MIB]).await;
    eventually(Duration::from_secs(2), "it is being received", async || {
        !site.staged().is_empty()
    })
    .await;
    let ballast = small.fill(2 * MIB);
    wire.try_send(&bytes[MIB..]).await;
    let answer = wire.answer().await.expect("the answer arrives");
    answer.expect(507, "capacity_exceeded", "storage_full");
    eventually(Duration::from_secs(2), "nothing is left", async || {
        site.is_clean().await
    })
    .await;
    // Reads are not concerned, small files still fit, and room that comes back is used.
    works(&site, &writer, "small").await;
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(put(&writer, "x").body(bytes.clone()).answer().await.status, 201);
    assert!(writer.get(&format!("{R}/raw/x")).key(key::READER).answer().await.body == bytes);
}

/// docs/spec/storage.md 7.2.3: sizes in flight and the reserve count before the disk is asked.
#[tokio::test]
async fn the_reserve_is_kept() {
    let (small, site) = small().await;
    let writer = site
        .standalone()
        .set("ARKVORY_STORAGE_RESERVE_BYTES", &(8 * MIB).to_string())
        .start()
        .await;
    let writable = async || {
        let body = writer.get("/health/ready").key(key::HEALTH).answer().await.json();
        body["writable"].as_bool().unwrap()
    };
    assert!(writable().await);
    let large = noise(3, 10 * MIB);
    for how in EVERY_WAY {
        send(&writer, "large", how, &large)
            .await
            .expect(507, "capacity_exceeded", "storage_full");
        assert!(site.is_clean().await, "{how:?}");
    }
    works(&site, &writer, "small").await;

    // Two that fit one by one: the second is refused while the first is on its way.
    let four = noise(4, 4 * MIB);
    let mut wire = Wire::open(&writer).await;
    let length = format!("Content-Length: {}\r\n", four.len());
    wire.send(Wire::head("PUT", &format!("{R}/raw/one"), key::WRITER, &length))
        .await;
    wire.send(&four[..MIB]).await;
    eventually(Duration::from_secs(2), "it is being received", async || {
        !site.staged().is_empty()
    })
    .await;
    let other = noise(5, 4 * MIB);
    send(&writer, "two", How::Length, &other)
        .await
        .expect(507, "capacity_exceeded", "storage_full");
    wire.send(&four[MIB..]).await;
    assert_eq!(wire.answer().await.unwrap().status, 201);

    // Below the reserve nothing is taken in, and readiness says so.
    small.fill(4 * MIB);
    put(&writer, "tiny")
        .body(vec![1])
        .answer()
        .await
        .expect(507, "capacity_exceeded", "storage_full");
    assert!(!writable().await);
    assert_eq!(writer.get("/health/status").answer().await.status, 200);
    assert!(writer.get(&format!("{R}/raw/one")).key(key::READER).answer().await.body == four);
    assert!(site.is_clean().await);
}
