//! Health and metrics (docs/spec/http-api.md 2.4, docs/spec/health.md 8.1 and 8.2).

use std::time::Duration;

use serde_json::json;

use crate::eventually::eventually;
use crate::metrics::Scrape;
use crate::process::Process;
use crate::site::{Site, key};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";

async fn status(process: &Process) -> (u16, String) {
    let answer = process.get("/health/status").answer().await;
    (answer.status, answer.json()["status"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn live_and_status_answer_anyone() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    for (path, body) in [
        ("/health/live", json!({ "status": "ok" })),
        ("/health/status", json!({ "status": "ready" })),
    ] {
        let answer = writer.get(path).answer().await;
        assert_eq!((answer.status, answer.json()), (200, body));
        let wrong = writer.get(path).key(key::UNKNOWN).answer().await;
        assert_eq!(wrong.status, 200);
        assert_eq!(writer.ask("HEAD", path).answer().await.status, 200);
    }
}

#[tokio::test]
async fn readiness_of_a_standalone_writer() {
    let site = Site::new().await;
    let launch = site.standalone().set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "20971520");
    let writer = launch
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", "65536")
        .start()
        .await;
    writer
        .get("/health/ready")
        .answer()
        .await
        .expect(401, "unauthorized", "credential_missing");
    let answer = writer.get("/health/ready").key(key::HEALTH).answer().await;
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(body["status"], "ready");
    assert_eq!(body["role"], "api");
    assert_eq!(body["writable"], true);
    assert_eq!(body["sharedDownloads"], json!(null));
    // Bursts: min(1 MiB, rate / 10), docs/spec/bandwidth.md 6.2.2.
    assert_eq!(
        body["transfers"]["downloads"]["bandwidth"],
        json!({
            "bytesPerSecond": 20_971_520, "perPrincipalBytesPerSecond": 65_536,
            "burstBytes": 1_048_576, "perPrincipalBurstBytes": 6_553, "waiting": 0, "grantedBytes": "0",
        })
    );
    for inside in ["ci", "team", "releases", "/tmp"] {
        assert!(
            !answer.text().contains(&format!("\"{inside}")),
            "docs/spec/health.md 8.1.1: {inside}"
        );
    }
}

/// docs/spec/health.md 8.1: still ready, but not writable.
#[tokio::test]
async fn a_writer_below_its_reserve_is_not_writable() {
    let site = Site::new().await;
    let writer = site
        .standalone()
        .set("ARKVORY_STORAGE_RESERVE_BYTES", "9007199254740991")
        .start()
        .await;
    assert_eq!(status(&writer).await, (200, "ready".to_owned()));
    let body = writer.get("/health/ready").key(key::HEALTH).answer().await.json();
    assert_eq!((&body["status"], &body["writable"]), (&json!("ready"), &json!(false)));
    let put = writer
        .ask("PUT", &format!("{R}/raw/x"))
        .key(key::WRITER)
        .body(b"x".to_vec())
        .answer()
        .await;
    put.expect(507, "capacity_exceeded", "storage_full");
}

/// docs/spec/health.md 8.1.2: the schema and the folder are looked at again and again.
#[tokio::test]
async fn readiness_follows_what_it_depends_on() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let mut db = site.db().await;
    let becomes = async |wanted: (u16, &str)| {
        let wanted = (wanted.0, wanted.1.to_owned());
        eventually(Duration::from_secs(4), &wanted.1, async || {
            status(&writer).await == wanted
        })
        .await;
        let ready = writer.get("/health/ready").key(key::HEALTH).answer().await;
        assert_eq!(ready.status, wanted.0);
        if wanted.0 == 503 {
            ready.expect(503, "unavailable", "");
            let head = writer.ask("HEAD", "/health/status").answer().await;
            assert_eq!((head.status, head.header("retry-after")), (503, "2"));
        }
        assert_eq!(writer.get("/health/live").answer().await.status, 200);
    };
    becomes((200, "ready")).await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (99991231000000, 'newer', true, '', 0)";
    sqlx::query(newer).execute(&mut db).await.unwrap();
    becomes((503, "unavailable")).await;
    sqlx::query("DELETE FROM _sqlx_migrations WHERE version = 99991231000000")
        .execute(&mut db)
        .await
        .unwrap();
    becomes((200, "ready")).await;
    let (blobs, elsewhere) = (site.data().join("blobs"), site.data().join("elsewhere"));
    rename(&blobs, &elsewhere);
    becomes((503, "unavailable")).await;
    rename(&elsewhere, &blobs);
    becomes((200, "ready")).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is about what somebody else does to the directory"
)]
fn rename(from: &std::path::Path, to: &std::path::Path) {
    std::fs::rename(from, to).unwrap();
}

/// Metrics of docs/spec/health.md 8.2 that every process has, as far as they belong to what is built.
const ALWAYS: [(&str, &str); 15] = [
    ("arkvory_http_requests_total", "counter"),
    ("arkvory_http_request_duration_seconds", "histogram"),
    ("arkvory_http_request_bytes_total", "counter"),
    ("arkvory_http_response_bytes_total", "counter"),
    ("arkvory_http_requests_in_flight", "gauge"),
    ("arkvory_transfer_active", "gauge"),
    ("arkvory_download_share_bytes_per_second", "gauge"),
    ("arkvory_download_granted_bytes_total", "counter"),
    ("arkvory_download_waiting_quanta", "gauge"),
    ("arkvory_downloads_total", "counter"),
    ("arkvory_download_reads_total", "counter"),
    ("arkvory_open_artifacts", "gauge"),
    ("arkvory_tasks", "gauge"),
    ("arkvory_process_start_time_seconds", "gauge"),
    ("arkvory_process_resident_memory_bytes", "gauge"),
];

/// Those of the gateway profile only (8.2.2).
const GATEWAY: [(&str, &str); 6] = [
    ("arkvory_gateway_slot", "gauge"),
    ("arkvory_gateway_slots", "gauge"),
    ("arkvory_gateway_lease_age_seconds", "gauge"),
    ("arkvory_gateway_lease_left_seconds", "gauge"),
    ("arkvory_gateway_generation", "gauge"),
    ("arkvory_download_total_bytes_per_second", "gauge"),
];

#[track_caller]
fn expect_families(scrape: &Scrape, wanted: &[(&str, &str)]) {
    for (name, kind) in wanted {
        assert_eq!(
            scrape.families.get(*name).map(String::as_str),
            Some(*kind),
            "{name}\n{}",
            scrape.text
        );
    }
}

#[tokio::test]
async fn metrics_need_a_credential() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    for method in ["GET", "HEAD"] {
        for secret in [None, Some(key::UNKNOWN)] {
            let mut ask = writer.ask(method, "/health/metrics");
            if let Some(secret) = secret {
                ask = ask.key(secret);
            }
            let answer = ask.answer().await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"));
        }
        assert_eq!(
            writer
                .ask(method, "/health/metrics")
                .key(key::HEALTH)
                .answer()
                .await
                .status,
            200
        );
    }
}

const CONTENT: &str = "/api/v1/repositories/{repository}/artifacts/{id}/content";
const RAW: &str = "/api/v1/repositories/{repository}/raw/{*path}";

fn requests(scrape: &Scrape, method: &str, route: &str, class: &str) -> Option<f64> {
    let labels = [("method", method), ("route", route), ("status_class", class)];
    scrape.value("arkvory_http_requests_total", &labels)
}

/// Some of everything, and a scrape after it: one upload of 10000 bytes, three downloads of them, one of 100, a HEAD,
/// and what isn't there. Returns the artifact's id too.
async fn traffic(writer: &Process) -> (Scrape, String) {
    let raw = format!("{R}/raw/hidden/name");
    let put = writer
        .ask("PUT", &raw)
        .key(key::WRITER)
        .body(vec![7; 10_000])
        .answer()
        .await;
    let id = put.json()["artifact"]["id"].as_str().unwrap().to_owned();
    let content = format!("{R}/artifacts/{id}/content");
    for _ in 0..3 {
        writer.get(&content).key(key::READER).answer().await;
    }
    let part = writer.get(&raw).key(key::READER).header("range", "bytes=0-99");
    part.answer().await;
    writer.ask("HEAD", &raw).key(key::READER).answer().await;
    writer
        .get(&format!("{R}/raw/hidden/absent"))
        .key(key::READER)
        .answer()
        .await;
    writer.get("/hidden/route").answer().await;
    writer.ask("HIDDEN", "/hidden/route").answer().await;
    writer.get("/health/live").answer().await;
    eventually(Duration::from_secs(2), "all answers are counted", async || {
        let scrape = Scrape::of(writer).await;
        requests(&scrape, "GET", CONTENT, "2xx") == Some(3.0)
            && requests(&scrape, "GET", "unmatched", "4xx") == Some(1.0)
    })
    .await;
    (Scrape::of(writer).await, id)
}

/// docs/spec/cases.md 9.11.5 and docs/spec/health.md 8.2.
#[tokio::test]
async fn metrics_count_by_template() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let (scrape, _) = traffic(&writer).await;
    for (method, class) in [("PUT", "2xx"), ("GET", "2xx"), ("HEAD", "2xx"), ("GET", "4xx")] {
        assert_eq!(requests(&scrape, method, RAW, class), Some(1.0), "{method} {class}");
    }
    let of_content = [("method", "GET"), ("route", CONTENT)];
    assert_eq!(
        scrape.value("arkvory_http_request_duration_seconds_count", &of_content),
        Some(3.0)
    );
    let all = [of_content[0], of_content[1], ("le", "+Inf")];
    assert_eq!(
        scrape.value("arkvory_http_request_duration_seconds_bucket", &all),
        Some(3.0)
    );
    let buckets = [
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
    ];
    assert_eq!(scrape.bounds("arkvory_http_request_duration_seconds"), buckets);
    // Payload and headers, three times.
    let sent = scrape.value("arkvory_http_response_bytes_total", &of_content).unwrap();
    assert!((30_000.0..34_000.0).contains(&sent), "{sent}");
    let received = scrape
        .value("arkvory_http_request_bytes_total", &[("method", "PUT"), ("route", RAW)])
        .unwrap();
    assert!((10_000.0..12_000.0).contains(&received), "{received}");
    // HEAD and 404 grant nothing.
    assert_eq!(
        scrape.value("arkvory_download_granted_bytes_total", &[]),
        Some(30_100.0)
    );
    assert_eq!(
        scrape.value("arkvory_downloads_total", &[("outcome", "completed")]),
        Some(4.0)
    );
    assert_eq!(
        scrape.value("arkvory_http_requests_in_flight", &[]),
        Some(0.0),
        "this scrape is of health"
    );
    let body = writer.get("/health/ready").key(key::HEALTH).answer().await.json();
    assert_eq!(body["transfers"]["downloads"]["bandwidth"]["grantedBytes"], "30100");
}

/// docs/spec/health.md 8.2.1.
#[tokio::test]
async fn metrics_tell_no_names() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let (scrape, id) = traffic(&writer).await;
    expect_families(&scrape, &ALWAYS);
    assert!(scrape.families.contains_key("arkvory_build_info"));
    for (name, _) in GATEWAY {
        assert!(!scrape.families.contains_key(name), "docs/spec/health.md 8.2.2: {name}");
    }
    for hidden in ["hidden", "HIDDEN", "releases", "team", "deployment-health", &id, "/tmp"] {
        assert!(!scrape.text.contains(hidden), "{hidden}\n{}", scrape.text);
    }
    for secret in key::ALL {
        assert!(!scrape.text.contains(secret));
    }
    let started = scrape.value("arkvory_process_start_time_seconds", &[]).unwrap();
    assert!(started > 1.7e9, "{started}");
    let memory = scrape.value("arkvory_process_resident_memory_bytes", &[]).unwrap();
    assert!((1e6..1e9).contains(&memory), "{memory}");
}

/// docs/spec/health.md 8.2: slot, lease and rates, which an operator sees nowhere else.
#[tokio::test]
async fn metrics_of_the_gateway_profile() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let reader = site.reader(2).start().await;
    for (process, slot) in [(&writer, 0.0), (&reader, 2.0)] {
        let scrape = Scrape::of(process).await;
        expect_families(&scrape, &ALWAYS);
        expect_families(&scrape, &GATEWAY);
        assert_eq!(scrape.value("arkvory_gateway_slot", &[]), Some(slot));
        assert_eq!(scrape.value("arkvory_gateway_slots", &[]), Some(3.0));
        assert_eq!(scrape.value("arkvory_gateway_generation", &[]), Some(1.0));
        assert_eq!(
            scrape.value("arkvory_download_total_bytes_per_second", &[]),
            Some(3.0 * 65536.0)
        );
        assert_eq!(
            scrape.value("arkvory_download_share_bytes_per_second", &[]),
            Some(65536.0)
        );
        let age = scrape.value("arkvory_gateway_lease_age_seconds", &[]);
        let left = scrape.value("arkvory_gateway_lease_left_seconds", &[]);
        let sum = age.unwrap() + left.unwrap();
        assert!(
            (7.9..8.1).contains(&sum),
            "the local trust is 8 s: {age:?} and {left:?}"
        );
        // A renewal every 2 s.
        let renewed = |scrape: &Scrape| {
            scrape
                .value("arkvory_gateway_renewal_duration_seconds_count", &[])
                .unwrap()
        };
        let before = renewed(&scrape);
        eventually(Duration::from_secs(4), "the lease is renewed", async || {
            renewed(&Scrape::of(process).await) > before
        })
        .await;
    }
}

/// A request counts as in flight until its answer is out.
#[tokio::test]
async fn requests_in_flight_are_counted_until_their_end() {
    let site = Site::new().await;
    let writer = site
        .standalone()
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "65536")
        .start()
        .await;
    writer
        .ask("PUT", &format!("{R}/raw/x"))
        .key(key::WRITER)
        .body(vec![7; 200_000])
        .answer()
        .await;
    let in_flight = async || {
        Scrape::of(&writer)
            .await
            .value("arkvory_http_requests_in_flight", &[])
            .unwrap()
    };
    eventually(Duration::from_secs(1), "none", async || in_flight().await == 0.0).await;
    let download = writer
        .get(&format!("{R}/raw/x"))
        .key(key::READER)
        .begin()
        .await
        .unwrap();
    assert!((in_flight().await - 1.0).abs() < 0.1);
    let mut upload = Wire::open(&writer).await;
    upload
        .send(Wire::head(
            "PUT",
            &format!("{R}/raw/y"),
            key::WRITER,
            "Content-Length: 1\r\n",
        ))
        .await;
    eventually(Duration::from_secs(1), "two", async || {
        (in_flight().await - 2.0).abs() < 0.1
    })
    .await;
    let waiting = async || Scrape::of(&writer).await.value("arkvory_download_waiting_quanta", &[]);
    eventually(Duration::from_secs(1), "a quantum waits", async || {
        waiting().await == Some(1.0)
    })
    .await;
    upload.send("y").await;
    assert_eq!(upload.answer().await.unwrap().status, 201);
    drop(download);
    eventually(Duration::from_secs(3), "none again", async || in_flight().await == 0.0).await;
    eventually(Duration::from_secs(1), "nothing waits", async || {
        waiting().await == Some(0.0)
    })
    .await;
}
