//! The end of a process that is told to stop (docs/spec/health.md 8.3).

use std::time::Duration;

use rustix::process::Signal;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::eventually::eventually;
use crate::process::{Process, Slot};
use crate::site::{Site, key, noise};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";

async fn publish(writer: &Process, path: &str, bytes: &[u8]) {
    let put = writer
        .ask("PUT", &format!("{R}/raw/{path}"))
        .key(key::WRITER)
        .body(bytes.to_vec())
        .answer()
        .await;
    assert_eq!(put.status, 201, "{put:?}");
}

/// How long the listener stays open.
async fn listens_for(process: &Process) -> Duration {
    let began = Instant::now();
    eventually(Duration::from_secs(10), "the listener closes", async || {
        TcpStream::connect(process.address).await.is_err()
    })
    .await;
    began.elapsed()
}

/// docs/spec/health.md 8.3.1 and 8.3.4.
#[tokio::test]
async fn a_running_download_ends_well_and_nothing_new_begins() {
    let site = Site::new().await;
    let mut writer = site.writer().start().await;
    // 5 s at 65536 bytes a second.
    let bytes = noise(1, 320 << 10);
    publish(&writer, "large", &bytes).await;
    let url = format!("{R}/raw/large");
    let download = writer.get(&url).key(key::READER).begin().await.unwrap();
    // Connected, and silent so far.
    let mut early = Wire::open(&writer).await;
    let mut upload = Wire::open(&writer).await;
    upload
        .send(Wire::head(
            "PUT",
            &format!("{R}/raw/begun"),
            key::WRITER,
            "Content-Length: 5\r\n",
        ))
        .await;
    eventually(Duration::from_secs(2), "the upload has begun", async || {
        !site.staged().is_empty()
    })
    .await;

    writer.signal(Signal::TERM);
    writer.logs("drain.started", Duration::from_secs(1)).await;
    let listening = listens_for(&writer);
    let looking = async {
        for path in ["/health/status", "/health/ready"] {
            let answer = writer.get(path).key(key::HEALTH).answer().await;
            assert_eq!((answer.status, answer.header("retry-after")), (503, "2"), "{path}");
        }
        let status = writer.get("/health/status").answer().await;
        assert_eq!(status.json(), serde_json::json!({ "status": "draining" }));
        assert_eq!(writer.ask("HEAD", "/health/status").answer().await.status, 503);
        assert_eq!(writer.get("/health/live").answer().await.status, 200);
        assert_eq!(
            writer.get("/health/metrics").key(key::HEALTH).answer().await.status,
            200
        );
        for (method, path, secret) in [
            ("GET", url.as_str(), Some(key::READER)),
            ("PUT", url.as_str(), Some(key::WRITER)),
            ("GET", "/api/v1/auth/me", None),
        ] {
            let ask = writer.ask(method, path);
            let ask = match secret {
                Some(secret) => ask.key(secret),
                None => ask,
            };
            let answer = ask.answer().await;
            answer.expect(503, "busy", "");
            assert_eq!(
                (answer.header("connection"), answer.header("retry-after")),
                ("close", "2")
            );
        }
        writer
            .get("/nowhere")
            .answer()
            .await
            .expect(404, "not_found", "route_not_found");
        early.send(Wire::head("GET", &url, key::READER, "")).await;
        let answer = early.answer().await.unwrap();
        answer.expect(503, "busy", "");
        assert_eq!(answer.header("connection"), "close");
        assert!(early.rest().await.is_empty());
        // What was admitted goes on, and may change things.
        upload.send("begun").await;
        assert_eq!(upload.answer().await.unwrap().status, 201);
    };
    let (listened, (), whole) = tokio::join!(listening, looking, download.bytes());
    assert!((2800..4500).contains(&listened.as_millis()), "{listened:?}");
    assert!(whole.unwrap() == bytes);
    assert_eq!(writer.ended(Duration::from_secs(5)).await, Some(0));
    for code in ["drain.started", "drain.settled", "api.stopped"] {
        assert_eq!(writer.logged(code), 1, "{code}");
    }
    assert!(site.is_clean().await && site.uploads("available").await == 2);
}

/// docs/spec/health.md 8.3.4: also with nothing in flight. An interrupt is the same.
#[tokio::test]
async fn the_listener_stays_open_for_a_balancer_to_see() {
    let site = Site::new().await;
    let mut writer = site.standalone().start().await;
    // A connection that is kept open and idle does not hold the process up.
    let mut idle = Wire::open(&writer).await;
    idle.send(Wire::head("GET", "/health/live", key::HEALTH, "")).await;
    assert_eq!(idle.answer().await.unwrap().status, 200);
    writer.signal(Signal::INT);
    let listened = listens_for(&writer).await;
    assert!((2800..4500).contains(&listened.as_millis()), "{listened:?}");
    assert_eq!(writer.ended(Duration::from_secs(3)).await, Some(0));
    assert_eq!(writer.logged("api.stopped"), 1);
    assert!(idle.rest().await.is_empty());
    site.released().await;
    site.standalone().start().await;
}

/// docs/spec/health.md 8.3.2.
#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let site = Site::new().await;
    let mut writer = site
        .standalone()
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "65536")
        .allow("drain.expedited")
        .start()
        .await;
    let bytes = noise(2, 2 << 20);
    publish(&writer, "large", &bytes).await;
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("GET", &format!("{R}/raw/large"), key::READER, ""))
        .await;
    assert_eq!(wire.answer_head().await.unwrap().0, 200);
    writer.signal(Signal::TERM);
    writer.logs("drain.started", Duration::from_secs(1)).await;
    let began = Instant::now();
    writer.signal(Signal::TERM);
    assert_eq!(writer.ended(Duration::from_secs(3)).await, Some(0));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(writer.logged("drain.expedited"), 1);
    assert!(wire.rest().await.len() < bytes.len(), "a cut body is no whole one");
}

/// docs/spec/health.md 8.3.1: what does not end within the window is cut, and the log says so.
#[tokio::test]
async fn the_window_ends() {
    let site = Site::new().await;
    let launch = site.standalone().set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "65536");
    let mut writer = launch
        .set("ARKVORY_DRAIN_TIMEOUT_MS", "4000")
        .allow("drain.timeout")
        .start()
        .await;
    let bytes = noise(3, 2 << 20);
    publish(&writer, "large", &bytes).await;
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("GET", &format!("{R}/raw/large"), key::READER, ""))
        .await;
    assert_eq!(wire.answer_head().await.unwrap().0, 200);
    // One that sends nothing is cut too.
    let mut upload = Wire::open(&writer).await;
    upload
        .send(Wire::head(
            "PUT",
            &format!("{R}/raw/begun"),
            key::WRITER,
            "Content-Length: 5\r\n",
        ))
        .await;
    eventually(Duration::from_secs(2), "the upload has begun", async || {
        !site.staged().is_empty()
    })
    .await;
    writer.signal(Signal::TERM);
    let began = Instant::now();
    let received = wire.rest().await.len();
    assert!(
        (3800..6000).contains(&began.elapsed().as_millis()),
        "{:?}",
        began.elapsed()
    );
    assert!(received < bytes.len());
    assert_eq!(writer.ended(Duration::from_secs(8)).await, Some(0));
    assert_eq!((writer.logged("drain.timeout"), writer.logged("api.stopped")), (1, 1));
    drop(upload);
    drop(writer);
    site.released().await;
    let _writer = site.standalone().allow("upload.recovered").start().await;
    assert!(site.is_clean().await);
}

/// A reader drains as the writer does, and its answers still tell where they come from.
#[tokio::test]
async fn a_draining_reader_names_itself() {
    let site = Site::new().await;
    let writer = site.writer().fast().start().await;
    publish(&writer, "there", b"there").await;
    let mut reader = site.reader(2).fast().start().await;
    assert_eq!(reader.slot, Slot::Is(2));
    reader.signal(Signal::TERM);
    reader.logs("drain.started", Duration::from_secs(1)).await;
    reader
        .get(&format!("{R}/raw/there"))
        .key(key::READER)
        .answer()
        .await
        .expect(503, "busy", "");
    reader
        .ask("PUT", &format!("{R}/raw/there"))
        .key(key::WRITER)
        .answer()
        .await
        .expect(503, "busy", "");
    assert_eq!(reader.ended(Duration::from_secs(10)).await, Some(0));
    let got = writer.get(&format!("{R}/raw/there")).key(key::READER).answer().await;
    assert_eq!(got.status, 200);
}
