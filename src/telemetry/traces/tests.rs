use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::thread;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_sdk::error::OTelSdkError;
use tokio::time::{Instant, timeout};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::config;
use crate::telemetry::logs::Captured;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn parent(text: &str) -> HeaderMap {
    HeaderMap::from_iter([(
        HeaderName::from_static("traceparent"),
        HeaderValue::from_str(text).unwrap(),
    )])
}

/// Takes one request and answers it; returns its text, bytes as they are.
fn collector() -> (SocketAddr, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut part = [0; 4096];
        loop {
            let read = peer.read(&mut part).unwrap();
            request.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&request).to_lowercase();
            let Some((head, _)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .unwrap();
            let start = request.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
            if request.len() >= start + length.parse::<usize>().unwrap() {
                break;
            }
        }
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        request.into_iter().map(char::from).collect()
    });
    (address, taken)
}

/// Makes `count` spans and ends the exporter, as a process does it: outside of the runtime's threads.
async fn export(address: SocketAddr, count: usize) -> (u64, Duration) {
    let exporter = Exporter::start(&format!("http://{address}/"), Uuid::nil()).unwrap();
    let subscriber = tracing_subscriber::registry().with(exporter.layer());
    let began = Instant::now();
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..count {
            let span = tracing::info_span!(target: SPANS, "lookup", artifact = "some");
            span.set_parent(parent_of(&parent(&format!("00-{TRACE}-00f067aa0ba902b7-01"))))
                .unwrap();
            let _entered = span.enter();
            let mut headers = HeaderMap::new();
            inject(&mut headers);
            assert_eq!(trace_id(&headers).as_deref(), Some(TRACE));
            let _other = tracing::info_span!(target: "elsewhere", "hidden").entered();
            tracing::error!(target: SPANS, "hidden");
        }
    });
    let spent = began.elapsed();
    let failed = exporter.failed();
    let ended = thread::spawn(move || drop(exporter));
    while !ended.is_finished() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (failed.count(), spent)
}

#[tokio::test]
async fn a_collector_gets_the_spans() {
    let (address, taken) = collector();
    let (failed, _) = timeout(Duration::from_secs(10), export(address, 1)).await.unwrap();
    let request = taken.join().unwrap();
    assert!(request.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{request}");
    assert!(
        request.to_lowercase().contains("content-type: application/x-protobuf"),
        "{request}"
    );
    for part in [
        "lookup",
        "service.name",
        SERVICE,
        "service.instance.id",
        &Uuid::nil().to_string(),
        "artifact",
    ] {
        assert!(request.contains(part), "{part}");
    }
    let trace: Vec<u8> = (0..16)
        .map(|i| u8::from_str_radix(&TRACE[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    assert!(request.contains(&trace.into_iter().map(char::from).collect::<String>()));
    assert!(!request.contains("hidden"));
    assert_eq!(failed, 0);
}

#[tokio::test]
async fn a_dead_collector_blocks_nothing() {
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [refusing, silent.local_addr().unwrap()] {
        let began = Instant::now();
        let (_, spent) = export(address, 10_000).await;
        assert!(spent < Duration::from_secs(3), "{spent:?} for 10,000 spans");
        assert!(
            began.elapsed() < spent + SHUTDOWN_LIMIT + Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    }
}

/// Fails as long as its answers say so.
#[derive(Debug)]
struct Flaky(Mutex<Vec<bool>>);

impl SpanExporter for Flaky {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        let fails = self.0.lock().unwrap().remove(0);
        if fails {
            Err(OTelSdkError::InternalFailure("CANARY".into()))
        } else {
            Ok(())
        }
    }
}

#[test]
fn an_outage_is_told_once() {
    let failed = FailedExports::default();
    let exporter = Flaky(Mutex::new(vec![false, true, true, true, false, true]));
    let watched = Watched {
        exporter,
        failed: failed.clone(),
        away: AtomicBool::new(false),
    };
    let lines = Captured::of(config::Level::Info, || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..6 {
            let _ = runtime.block_on(watched.export(Vec::new()));
        }
    });
    let codes: Vec<_> = lines.iter().map(|line| line.contains("traces.unavailable")).collect();
    assert_eq!(codes, [true, false, true], "{lines:?}");
    assert!(!lines.concat().contains("CANARY"));
    assert_eq!(failed.count(), 4);
}
