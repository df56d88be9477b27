//! A writer and two readers as separate processes (docs/spec/cases.md 9.3, 9.7), and what readers refuse.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::process::Process;
use crate::site::{Site, key, noise, sha256};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";

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

/// docs/spec/cases.md 9.3.1: the total is not multiplied by processes.
#[tokio::test]
async fn the_shares_add_up_to_the_total() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let (one, two) = tokio::join!(site.reader(1).start(), site.reader(2).start());
    let bytes = noise(1, 128 << 10);
    let id = publish(&writer, "shared", &bytes).await;
    let url = format!("{R}/artifacts/{id}/content");
    let download = async |process: &Process| {
        let began = Instant::now();
        let answer = process.get(&url).key(key::READER).answer().await;
        assert!(answer.status == 200 && answer.body == bytes);
        began.elapsed()
    };
    let times = tokio::join!(download(&writer), download(&one), download(&two));
    for time in [times.0, times.1, times.2] {
        // 131072 bytes less the burst of 6553, at 65536 a second, are 1.9 s.
        assert!(time >= Duration::from_millis(1750), "{times:?}");
        assert!(time < Duration::from_secs(4), "{times:?}");
    }
}

/// docs/spec/cases.md 9.3.2.
#[tokio::test]
async fn local_limits_do_not_raise_a_share() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let reader = site.reader(2).start().await;
    // A local limit may lower it, though.
    let low = site.reader(1).set(
        "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL",
        &(3 * 65536).to_string(),
    );
    let low = low.set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "65536").start().await;
    for (process, role, slot) in [(&writer, "api", 0), (&low, "reader", 1), (&reader, "reader", 2)] {
        let body = process.get("/health/ready").key(key::HEALTH).answer().await.json();
        assert_eq!(
            (&body["role"], &body["writable"]),
            (&json!(role), &json!(role == "api"))
        );
        assert_eq!(
            body["sharedDownloads"],
            json!({ "slot": slot, "slots": 3, "active": true, "leaseSeconds": 10 })
        );
        let bandwidth = &body["transfers"]["downloads"]["bandwidth"];
        assert_eq!(bandwidth["bytesPerSecond"], 65536, "{body}");
        assert_eq!(bandwidth["perPrincipalBytesPerSecond"], 65536, "{body}");
        assert_eq!(
            (&bandwidth["burstBytes"], &bandwidth["perPrincipalBurstBytes"]),
            (&json!(6553), &json!(6553))
        );
    }
}

/// docs/spec/environment.md 4.2.2: floor, and 0 stays unlimited.
#[tokio::test]
async fn a_share_is_the_floor_of_the_total_by_the_slots() {
    let site = Site::new().await;
    let launch = site.writer().set("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND", "1000000");
    let launch = launch.unset("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL");
    let writer = launch.set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "100000").start().await;
    let body = writer.get("/health/ready").key(key::HEALTH).answer().await.json();
    let bandwidth = &body["transfers"]["downloads"]["bandwidth"];
    assert_eq!(
        (&bandwidth["bytesPerSecond"], &bandwidth["perPrincipalBytesPerSecond"]),
        (&json!(100_000), &json!(0))
    );
    drop(writer);
    let site = Site::new().await;
    let launch = site.writer().set("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND", "1000000");
    let writer = launch
        .set("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", "200000")
        .start()
        .await;
    let body = writer.get("/health/ready").key(key::HEALTH).answer().await.json();
    let bandwidth = &body["transfers"]["downloads"]["bandwidth"];
    assert_eq!(
        (&bandwidth["bytesPerSecond"], &bandwidth["perPrincipalBytesPerSecond"]),
        (&json!(333_333), &json!(66_666))
    );
}

/// docs/spec/cases.md 9.3.3 and 9.3.4; what the writer has published is there at once (docs/spec/roles.md 1.1.3).
#[tokio::test]
async fn readers_serve_what_the_writer_publishes() {
    let site = Site::new().await;
    let writer = site.writer().fast().start().await;
    let (one, two) = tokio::join!(site.reader(1).fast().start(), site.reader(2).fast().start());
    let before = |path: &str| std::fs::metadata(site.data().join(path)).unwrap().modified().unwrap();
    for n in 0..50_u64 {
        let bytes = noise(n, 1000);
        let path = format!("fresh/{}", n % 10);
        publish(&writer, &path, &bytes).await;
        for reader in [&one, &two] {
            let got = reader.get(&format!("{R}/raw/{path}")).key(key::READER).answer().await;
            assert!(got.status == 200 && got.body == bytes, "{got:?}");
        }
    }
    let folders = ["", "blobs", "staging", "parts"];
    let times = folders.map(before);
    let current = noise(43, 1000);
    for reader in [&one, &two] {
        let part = reader
            .get(&format!("{R}/asset/content?path=fresh/3"))
            .key(key::READER)
            .header("range", "bytes=13-42");
        let part = part.answer().await;
        assert_eq!((part.status, part.header("content-range")), (206, "bytes 13-42/1000"));
        assert!(part.body == current[13..=42]);
        let list = reader
            .get(&format!("{R}/assets"))
            .key(key::READER)
            .answer()
            .await
            .json();
        assert_eq!(list["items"].as_array().unwrap().len(), 10);
        let url = format!("{R}/raw/fresh/3");
        reader
            .get(&url)
            .answer()
            .await
            .expect(401, "unauthorized", "credential_missing");
        reader
            .get(&url)
            .key(key::ATTIC)
            .answer()
            .await
            .expect(403, "forbidden", "permission_missing");
        let foreign = "/api/v1/repositories/attic/raw/x";
        reader
            .get(foreign)
            .key(key::READER)
            .answer()
            .await
            .expect(403, "forbidden", "permission_missing");
    }
    assert_eq!(folders.map(before), times, "readers write no files");
}

/// docs/spec/http-api.md 2.2.12 and 2.3.3, docs/spec/cases.md 9.3.5.
#[tokio::test]
async fn a_reader_refuses_every_change() {
    let site = Site::new().await;
    let writer = site.writer().fast().start().await;
    let reader = site.reader(1).fast().start().await;
    publish(&writer, "there", b"there").await;
    let raw = format!("{R}/raw/there");
    let change = |method: &str, path: &str, secret: Option<&str>| {
        let ask = reader.ask(method, path).body(b"changed".to_vec());
        let ask = match secret {
            Some(secret) => ask.key(secret),
            None => ask,
        };
        ask.answer()
    };
    // A route that there is: a wrong credential is told first, then nobody may.
    change("PUT", &raw, None)
        .await
        .expect(401, "unauthorized", "credential_missing");
    change("PUT", &raw, Some(key::UNKNOWN))
        .await
        .expect(401, "unauthorized", "credential_invalid");
    for secret in [key::WRITER, key::READER, key::HEALTH, key::ATTIC] {
        change("PUT", &raw, Some(secret)).await.expect(405, "read_only", "");
    }
    // Methods that no route has: before authentication.
    for method in ["POST", "DELETE", "PATCH"] {
        for secret in [None, Some(key::UNKNOWN), Some(key::WRITER)] {
            for path in [&raw, &format!("{R}/artifacts"), "/api/v1/auth/me"] {
                let answer = change(method, path, secret).await;
                answer.expect(405, "read_only", "");
                assert_eq!(answer.header("allow"), "GET, HEAD", "{method} {path}");
            }
        }
        change(method, "/api/v1/nowhere", Some(key::WRITER))
            .await
            .expect(404, "not_found", "route_not_found");
    }
    let got = reader.get(&raw).key(key::READER).answer().await;
    assert!(got.body == "there");
    // The answer arrives, however much the client sends.
    let mut wire = Wire::open(&reader).await;
    wire.send(Wire::head("PUT", &raw, key::WRITER, "Content-Length: 5368709120\r\n"))
        .await;
    let piece = vec![0; 1 << 20];
    let mut sent = 0;
    while sent < 64 && wire.try_send(&piece).await {
        sent += 1;
    }
    let answer = wire.answer().await.expect("the answer arrives");
    answer.expect(405, "read_only", "");
    assert_eq!((answer.header("connection"), sent < 64), ("close", true));
    assert!(site.is_clean().await);
}

/// docs/spec/cases.md 9.3.6 and docs/spec/leases.md 5.7.6.
#[tokio::test]
async fn a_download_survives_its_reader_elsewhere() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let (mut one, two) = tokio::join!(site.reader(1).start(), site.reader(2).start());
    let bytes = noise(2, 120 << 10);
    let id = publish(&writer, "large", &bytes).await;
    let url = format!("{R}/artifacts/{id}/content");

    let mut wire = Wire::open(&one).await;
    wire.send(Wire::head("GET", &url, key::READER, "")).await;
    let (status, headers) = wire.answer_head().await.unwrap();
    assert_eq!(status, 200);
    let etag = headers["etag"].to_str().unwrap().to_owned();
    let mut kept = wire.take(20_000).await;
    one.kill();
    kept.extend(wire.rest().await);
    assert!(
        (20_000..bytes.len()).contains(&kept.len()),
        "a broken body is no whole one: {}",
        kept.len()
    );

    // Resumed on another process, and all of it from a third one.
    let resume = async {
        let range = format!("bytes={}-", kept.len());
        let rest = two
            .get(&url)
            .key(key::READER)
            .header("range", &range)
            .header("if-range", &etag)
            .answer()
            .await;
        assert_eq!(rest.status, 206);
        [&kept[..], &rest.body].concat()
    };
    let whole = async { writer.get(&url).key(key::READER).answer().await.body };
    let (resumed, whole) = tokio::join!(resume, whole);
    for downloaded in [&resumed[..], &whole] {
        assert_eq!(sha256(downloaded), sha256(&bytes));
        assert_eq!(etag, format!("\"sha256:{}\"", sha256(downloaded)));
    }
}

/// docs/spec/cases.md 9.7.1: several keys of one principal share its rate; another principal isn't held up by it.
#[tokio::test]
async fn keys_of_one_principal_share_its_rate() {
    let site = Site::new().await;
    let launch = site
        .standalone()
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", "65536");
    let writer = launch.start().await;
    let bytes = noise(3, 128 << 10);
    let id = publish(&writer, "large", &bytes).await;
    let url = format!("{R}/artifacts/{id}/content");
    let began = Instant::now();
    let finished = async |secret: &str| {
        let answer = writer.get(&url).key(secret).answer().await;
        assert!(answer.body == bytes);
        began.elapsed()
    };
    let (one, two, other) = tokio::join!(finished(key::TWIN), finished(key::OTHER_TWIN), finished(key::READER));
    let both = one.max(two);
    // 262144 bytes less the burst, at 65536 a second, are 3.9 s.
    assert!(both >= Duration::from_millis(3700), "{both:?}");
    assert!(both < Duration::from_secs(6), "{both:?}");
    assert!(other + Duration::from_millis(500) <= both, "{other:?} and {both:?}");
    assert!(other >= Duration::from_millis(1750), "{other:?}");
}

/// docs/spec/bandwidth.md 6.2.9: HEAD, 304 and 416 cost no budget, and the end of a transfer doesn't wait for one.
#[tokio::test]
async fn only_payload_is_paced() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let bytes = noise(4, 6000);
    publish(&writer, "small", &bytes).await;
    let url = format!("{R}/raw/small");
    let began = Instant::now();
    for _ in 0..30 {
        assert_eq!(writer.ask("HEAD", &url).key(key::READER).answer().await.status, 200);
        let etag = format!("\"sha256:{}\"", sha256(&bytes));
        assert_eq!(
            writer
                .get(&url)
                .key(key::READER)
                .header("if-none-match", &etag)
                .answer()
                .await
                .status,
            304
        );
        assert_eq!(
            writer
                .get(&url)
                .key(key::READER)
                .header("range", "bytes=9999-")
                .answer()
                .await
                .status,
            416
        );
    }
    // Within the burst.
    assert!(writer.get(&url).key(key::READER).answer().await.body == bytes);
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    let body = writer.get("/health/ready").key(key::HEALTH).answer().await.json();
    assert_eq!(body["transfers"]["downloads"]["bandwidth"]["grantedBytes"], "6000");
}
