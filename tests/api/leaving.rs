//! Clients and files that go away in the middle of a transfer leave nothing behind.

use std::fs::File;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::eventually::eventually;
use crate::metrics::Scrape;
use crate::process::Process;
use crate::site::{Site, key, noise, sha256};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";
/// How soon everything is back.
const SOON: Duration = Duration::from_secs(3);

async fn publish(writer: &Process, path: &str, bytes: &[u8]) -> String {
    let put = writer
        .ask("PUT", &format!("{R}/raw/{path}"))
        .key(key::WRITER)
        .body(bytes.to_vec())
        .answer()
        .await;
    assert_eq!(put.status, 201, "{put:?}");
    put.json()["artifact"]["id"].as_str().unwrap().to_owned()
}

/// Everything that a transfer takes and must give back.
struct Holding<'a> {
    site: &'a Site,
    process: &'a Process,
    descriptors: usize,
    tasks: f64,
}

impl<'a> Holding<'a> {
    /// What is held while nothing runs.
    async fn idle(site: &'a Site, process: &'a Process) -> Self {
        // The connection of this test's own client counts too, and that of the database pool.
        for _ in 0..3 {
            process.get(&format!("{R}/assets")).key(key::READER).answer().await;
        }
        let scrape = Scrape::of(process).await;
        Self {
            site,
            process,
            descriptors: process.descriptors(),
            tasks: tasks(&scrape),
        }
    }

    fn blobs_open(&self) -> usize {
        self.process.descriptors_in(&self.site.data().join("blobs"))
    }

    fn staged_open(&self) -> usize {
        self.process.descriptors_in(&self.site.data().join("staging"))
    }

    /// Waits until all of it is back.
    async fn is_back(&self) {
        eventually(SOON, "no file is open", async || {
            self.blobs_open() + self.staged_open() == 0
        })
        .await;
        eventually(SOON, "nothing is in flight", async || {
            let scrape = Scrape::of(self.process).await;
            let none = |name: &str| scrape.value(name, &[]) == Some(0.0);
            let all = [
                "arkvory_http_requests_in_flight",
                "arkvory_transfer_active",
                "arkvory_open_artifacts",
                "arkvory_download_waiting_quanta",
            ];
            all.into_iter().all(none) && tasks(&scrape) <= self.tasks
        })
        .await;
        // A few may be connections that the pool has opened meanwhile.
        eventually(SOON, "descriptors are back", async || {
            self.process.descriptors() <= self.descriptors + 4
        })
        .await;
        eventually(SOON, "nothing is left on disk", async || self.site.is_clean().await).await;
    }
}

fn in_flight(scrape: &Scrape) -> f64 {
    scrape.value("arkvory_http_requests_in_flight", &[]).unwrap()
}

/// All tasks of the supervisor.
fn tasks(scrape: &Scrape) -> f64 {
    scrape.value("arkvory_tasks", &[]).unwrap()
}

#[tokio::test]
async fn clients_that_leave_in_a_download_leave_nothing() {
    let site = Site::new().await;
    let launch = site.standalone().set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "4194304");
    let writer = launch
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", "2097152")
        .start()
        .await;
    let bytes = noise(1, 8 << 20);
    let id = publish(&writer, "large", &bytes).await;
    let holding = Holding::idle(&site, &writer).await;
    let blob = File::open(site.blob(&id)).unwrap();
    for how in ["close", "reset", "half"] {
        let mut wires = Vec::new();
        for n in 0..20 {
            let secret = if n % 2 == 0 { key::READER } else { key::TWIN };
            let mut wire = Wire::open(&writer).await;
            wire.send(Wire::head("GET", &format!("{R}/raw/large"), secret, ""))
                .await;
            assert_eq!(wire.answer_head().await.unwrap().0, 200);
            wires.push(wire);
        }
        assert!(holding.blobs_open() > 0);
        assert!((in_flight(&Scrape::of(&writer).await) - 20.0).abs() < 0.1);
        assert!(flock(&blob, FlockOperation::NonBlockingLockExclusive).is_err());
        for mut wire in wires {
            match how {
                "close" => drop(wire),
                "reset" => wire.reset(),
                // One that sends no more and still listens is served on; then it goes.
                _ => wire.finish_sending().await,
            }
        }
        holding.is_back().await;
        flock(&blob, FlockOperation::NonBlockingLockExclusive).unwrap();
        flock(&blob, FlockOperation::Unlock).unwrap();
    }
    // The budget has taken no harm.
    let part = writer
        .get(&format!("{R}/raw/large"))
        .key(key::READER)
        .header("range", "bytes=5-9")
        .answer()
        .await;
    assert!(part.body == bytes[5..=9]);
}

#[tokio::test]
async fn clients_that_leave_in_an_upload_leave_nothing() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    publish(&writer, "there", b"there").await;
    let holding = Holding::idle(&site, &writer).await;
    let bytes = noise(2, 1 << 20);
    let sum = format!(
        "Content-Length: {}\r\nX-Checksum-Sha256: {}\r\n",
        bytes.len(),
        sha256(&bytes)
    );
    for reset in [false, true] {
        let mut wires = Vec::new();
        for n in 0..8 {
            let mut wire = Wire::open(&writer).await;
            wire.send(Wire::head("PUT", &format!("{R}/raw/{n}"), key::WRITER, &sum))
                .await;
            wire.send(&bytes[..300_000]).await;
            wires.push(wire);
        }
        eventually(SOON, "all are being received", async || site.staged().len() == 8).await;
        assert_eq!(site.uploads("pending").await, 8);
        assert!((in_flight(&Scrape::of(&writer).await) - 8.0).abs() < 0.1);
        for wire in wires {
            if reset {
                wire.reset();
            }
        }
        holding.is_back().await;
        assert_eq!(site.uploads("pending").await, 0);
    }
}

/// Clients that come and go between requests, or in the middle of a head.
#[tokio::test]
async fn connections_without_requests_leave_nothing() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let holding = Holding::idle(&site, &writer).await;
    for n in 0..150 {
        let mut wire = Wire::open(&writer).await;
        if n % 3 == 0 {
            wire.send("GET /api/v1/auth/me HTTP/1.1\r\nAuthoriz").await;
        }
        if n % 2 == 0 {
            wire.reset();
        }
    }
    holding.is_back().await;
}

/// docs/spec/cases.md 9.8.5 and docs/spec/storage.md 7.3: never a complete body of a file that is none.
#[tokio::test]
async fn a_file_that_is_truncated_while_it_is_sent_breaks_the_connection() {
    let site = Site::new().await;
    let launch = site.standalone().set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "262144");
    let writer = launch.allow("download.integrity_mismatch").start().await;
    let bytes = noise(3, 8 << 20);
    let id = publish(&writer, "large", &bytes).await;
    let holding = Holding::idle(&site, &writer).await;
    let mut wires = Vec::new();
    for (path, more, status) in [
        (format!("{R}/artifacts/{id}/content"), "", 200),
        (format!("{R}/raw/large"), "Range: bytes=1000-\r\n", 206),
        (format!("{R}/asset/content?path=large"), "", 200),
    ] {
        let mut wire = Wire::open(&writer).await;
        wire.send(Wire::head("GET", &path, key::READER, more)).await;
        assert_eq!(wire.answer_head().await.unwrap().0, status);
        wire.take(10_000).await;
        wires.push(wire);
    }
    File::options()
        .write(true)
        .open(site.blob(&id))
        .unwrap()
        .set_len(5_000)
        .unwrap();
    let broken = async |wire: &mut Wire| tokio::time::timeout(SOON, wire.rest()).await.expect("within 3 s").len();
    let [one, two, three] = &mut wires[..] else {
        unreachable!()
    };
    let lengths = tokio::join!(broken(one), broken(two), broken(three));
    for length in [lengths.0, lengths.1, lengths.2] {
        assert!(length < 2 << 20, "{length}");
    }
    eventually(SOON, "each is logged", async || {
        writer.logged("download.integrity_mismatch") == 3
    })
    .await;
    drop(wires);
    // Its place and its descriptor are free again, and the process lives.
    std::fs::write(site.blob(&id), &bytes).unwrap();
    holding.is_back().await;
    let part = writer
        .get(&format!("{R}/raw/large"))
        .key(key::READER)
        .header("range", "bytes=-7")
        .answer()
        .await;
    assert!(part.body == bytes[bytes.len() - 7..]);
}
