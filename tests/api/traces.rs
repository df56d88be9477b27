//! What a collector gets of one download (W3C Trace Context, OTLP over HTTP).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::eventually::eventually;
use crate::site::{Site, key};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
    let body = request.windows(4).position(|w| w == b"\r\n\r\n").map(|end| end + 4);
    body.zip(length)
        .is_some_and(|(body, length)| request.len() >= body + length)
}

/// Takes every export and answers it; keeps the bytes as they are.
async fn collect(listener: TcpListener, taken: Arc<Mutex<Vec<u8>>>) {
    loop {
        let (mut peer, _) = listener.accept().await.unwrap();
        let taken = taken.clone();
        tokio::task::spawn_local(async move {
            let (mut request, mut part) = (Vec::new(), [0; 16 * 1024]);
            while let Ok(read @ 1..) = peer.read(&mut part).await {
                request.extend_from_slice(&part[..read]);
                if is_whole(&request) {
                    taken.lock().unwrap().append(&mut request);
                    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                        .await
                        .unwrap();
                }
            }
        });
    }
}

#[tokio::test]
async fn a_download_is_a_span_each_for_admission_look_up_and_body() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let endpoint = format!("http://{}", listener.local_addr().unwrap());
            let taken = Arc::new(Mutex::new(Vec::new()));
            tokio::task::spawn_local(collect(listener, taken.clone()));

            let site = Site::new().await;
            let mut writer = site
                .writer()
                .set("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
                .start()
                .await;
            let url = "/api/v1/repositories/releases/raw/traced";
            let put = writer
                .ask("PUT", url)
                .key(key::WRITER)
                .body(b"bytes".to_vec())
                .answer()
                .await;
            assert_eq!(put.status, 201);
            let got = writer
                .get(url)
                .key(key::READER)
                .header("traceparent", &format!("00-{TRACE}-00f067aa0ba902b7-01"))
                .answer()
                .await;
            assert_eq!(got.status, 200);

            let trace: Vec<u8> = (0..16)
                .map(|i| u8::from_str_radix(&TRACE[2 * i..2 * i + 2], 16).unwrap())
                .collect();
            let has = |wanted: &[u8]| {
                taken
                    .lock()
                    .unwrap()
                    .windows(wanted.len())
                    .filter(|w| *w == wanted)
                    .count()
            };
            eventually(Duration::from_secs(8), "the spans at the collector", async || {
                // The request and its three parts name the trace that the client began.
                has(&trace) >= 4
                    && [&b"admission"[..], b"look-up", b"body"]
                        .iter()
                        .all(|name| has(name) > 0)
            })
            .await;
            writer.stop().await;
        })
        .await;
}
