//! The order of checks and what all answers have in common (docs/spec/http-api.md 2.1 to 2.3, docs/spec/errors.md).

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::eventually::eventually;
use crate::process::Process;
use crate::site::{Site, key};
use crate::talk::Answer;
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";

/// Every path that has an operation, for a published `there` with this id.
fn paths(id: &str) -> Vec<String> {
    let mut paths: Vec<String> = ["/api/v1/auth/me", "/api/v1/capabilities"].map(str::to_owned).into();
    for path in [
        "artifacts",
        &format!("artifacts/{id}"),
        &format!("artifacts/{id}/content"),
        "asset?path=there",
        "asset/content?path=there",
        "asset/history?path=there",
        "asset/revision?path=there&revision=1",
        "assets",
        "assets/page",
        "raw/there",
    ] {
        paths.push(format!("{R}/{path}"));
    }
    paths
}

const HEALTH: [&str; 4] = ["/health/live", "/health/status", "/health/ready", "/health/metrics"];

async fn publish(writer: &Process) -> String {
    let put = writer
        .ask("PUT", &format!("{R}/raw/there"))
        .key(key::WRITER)
        .body(b"there".to_vec())
        .answer()
        .await;
    put.json()["artifact"]["id"].as_str().unwrap().to_owned()
}

/// docs/spec/http-api.md 2.3.1.
#[tokio::test]
async fn an_unknown_route_is_404_for_everybody_and_is_not_echoed() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    for path in [
        "/",
        "/nowhere",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/secretive",
        "/api/v1/secretive?token=secretive",
        "/api/v2/auth/me",
        "/API/V1/auth/me",
        "/api/v1/auth/me/",
        "/api/v1/repositories/releases/secretive",
        "/api/v1/repositories/releases/artifacts/",
        "/api/v1/repositories/releases/raw",
        "/api/v1/repositories/releases/raw/",
        "//api/v1/auth/me",
        "/health",
        "/health/",
        "/health/secretive",
        "/v2/",
        "/metrics",
    ] {
        let mut bodies = BTreeSet::new();
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "SECRETIVE"] {
            for secret in [None, Some(key::WRITER), Some(key::READER), Some(key::UNKNOWN)] {
                let mut ask = writer.ask(method, path);
                if let Some(secret) = secret {
                    ask = ask.key(secret);
                }
                let answer = ask.answer().await;
                answer.expect(404, "not_found", "route_not_found");
                assert!(
                    !answer.text().to_lowercase().contains("secretive"),
                    "{method} {path}: {answer:?}"
                );
                assert_eq!(answer.header("allow"), "");
                let mut body = answer.json();
                body["requestId"] = Value::Null;
                bodies.insert(body.to_string());
            }
        }
        assert_eq!(bodies.len(), 1, "{path}: {bodies:?}");
        assert_eq!(writer.ask("HEAD", path).answer().await.status, 404);
    }
}

/// docs/spec/http-api.md 2.3.2: before authentication, with the sorted list of what there is.
#[tokio::test]
async fn a_wrong_method_is_405_with_what_there_is() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer).await;
    let all = paths(&id).into_iter().chain(HEALTH.map(str::to_owned));
    for path in all {
        let raw = path.contains("/raw/");
        for method in ["PUT", "POST", "DELETE", "PATCH", "TRACE", "SECRETIVE"] {
            if raw && method == "PUT" {
                continue;
            }
            for secret in [None, Some(key::WRITER), Some(key::UNKNOWN)] {
                let mut ask = writer.ask(method, &path);
                if let Some(secret) = secret {
                    ask = ask.key(secret);
                }
                let answer = ask.answer().await;
                answer.expect(405, "invalid_input", "method_not_allowed");
                assert_eq!(
                    answer.header("allow"),
                    if raw { "GET, HEAD, PUT" } else { "GET, HEAD" },
                    "{method} {path}"
                );
                assert!(!answer.text().to_lowercase().contains("secretive"));
            }
        }
    }
}

/// docs/spec/http-api.md 2.1 and 2.2.10.
#[tokio::test]
async fn only_a_bearer_of_the_keys_file_is_let_in() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer).await;
    let good = format!("Bearer {}", key::READER);
    let invalid = [
        format!("Bearer {}", key::UNKNOWN),
        format!("Bearer {}x", key::READER),
        format!("Bearer {}", key::READER.to_uppercase()),
        format!("Bearer {}", "x".repeat(31)),
        format!("Bearer {}", "x".repeat(513)),
        format!("Bearer {} {}", key::READER, key::READER),
        "Bearer arkvory_0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11.0123456789012345678901234567890123456789012".to_owned(),
        "Bearer dps_0123456789012345678901234567890123456789012".to_owned(),
        format!("Basic {}", key::READER),
        format!("Token {}", key::READER),
        key::READER.to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        String::new(),
    ];
    let guarded = paths(&id)
        .into_iter()
        .chain(HEALTH[2..].iter().map(|path| (*path).to_owned()));
    for path in guarded {
        let missing = writer.get(&path).answer().await;
        missing.expect(401, "unauthorized", "credential_missing");
        // Neither of these is a credential here.
        let other = writer
            .get(&path)
            .header("X-ApiKey", key::READER)
            .header("Cookie", &good);
        other.answer().await.expect(401, "unauthorized", "credential_missing");
        let in_query = if path.contains('?') {
            format!("{path}&token={}", key::READER)
        } else {
            format!("{path}?token={}", key::READER)
        };
        writer
            .get(&in_query)
            .answer()
            .await
            .expect(401, "unauthorized", "credential_missing");
        for value in &invalid {
            let answer = writer.get(&path).header("Authorization", value).answer().await;
            answer.expect(401, "unauthorized", "credential_invalid");
        }
        let head = writer.ask("HEAD", &path).answer().await;
        assert_eq!((head.status, head.header("www-authenticate")), (401, "Bearer"));
        assert_eq!(
            writer.get(&path).header("Authorization", &good).answer().await.status,
            200,
            "{path}"
        );
        let lower = format!("bearer {}", key::READER);
        assert_eq!(
            writer.get(&path).header("Authorization", &lower).answer().await.status,
            200,
            "{path}"
        );
    }
    // Two credentials are none.
    let mut wire = Wire::open(&writer).await;
    let second = format!("Authorization: Bearer {}\r\n", key::UNKNOWN);
    wire.send(Wire::head("GET", "/api/v1/auth/me", key::READER, &second))
        .await;
    let answer = wire.answer().await.unwrap();
    assert!(matches!(answer.status, 200 | 401), "{answer:?}");
}

/// docs/spec/http-api.md 2.2: a wrong credential is told before a missing right, a missing right before an absent object.
#[tokio::test]
async fn rights_are_checked_in_order() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    publish(&writer).await;
    let put = |secret: &str, path: &str| writer.ask("PUT", path).key(secret).body(b"x".to_vec()).answer();
    put(key::UNKNOWN, &format!("{R}/raw/a%5Cb"))
        .await
        .expect(401, "unauthorized", "credential_invalid");
    for (secret, path) in [
        (key::READER, format!("{R}/raw/new")),
        (key::HEALTH, format!("{R}/raw/new")),
        (key::ATTIC, format!("{R}/raw/new")),
        (key::WRITER, "/api/v1/repositories/attic/raw/new".to_owned()),
        (key::WRITER, "/api/v1/repositories/unheard-of/raw/new".to_owned()),
    ] {
        put(secret, &path).await.expect(403, "forbidden", "permission_missing");
    }
    let absent = "/api/v1/repositories/unheard-of/raw/new";
    writer
        .get(absent)
        .key(key::WRITER)
        .answer()
        .await
        .expect(403, "forbidden", "permission_missing");
    assert!(site.is_clean().await && site.uploads("available").await == 1);
}

/// docs/spec/http-api.md 2.1: HEAD exists for every GET, with the same status and headers.
#[tokio::test]
async fn head_says_what_get_says() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer).await;
    let absent = [
        format!("{R}/raw/nowhere"),
        format!("{R}/artifacts?limit=0"),
        "/nowhere".to_owned(),
    ];
    let all = paths(&id)
        .into_iter()
        .chain(HEALTH[..3].iter().map(|path| (*path).to_owned()))
        .chain(absent);
    for path in all {
        let get = writer.get(&path).key(key::READER).answer().await;
        let head = writer.ask("HEAD", &path).key(key::READER).answer().await;
        let headers = |answer: &Answer| {
            let mut headers = answer.headers.clone();
            // Different at every answer.
            headers.remove("x-request-id");
            headers.remove("date");
            headers
        };
        assert_eq!((get.status, headers(&get)), (head.status, headers(&head)), "{path}");
        assert_eq!(get.header("content-length"), get.body.len().to_string(), "{path}");
    }
}

fn is_ours(id: &str) -> bool {
    uuid::Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 4)
}

/// docs/spec/http-api.md 2.1 and docs/spec/cases.md 9.11.4.
#[tokio::test]
async fn a_request_id_is_taken_from_trusted_proxies_only() {
    let good = ["12345678", &"x".repeat(128), "A.b_c:d-e", "0---------"];
    let bad = [
        "1234567",
        &"x".repeat(129),
        "-2345678",
        ".2345678",
        "12345 78",
        "1234567\u{fc}",
        "",
        "<script>alert",
    ];
    let site = Site::new().await;
    for trusted in [
        None,
        Some("127.0.0.1"),
        Some("10.0.0.0/8"),
        Some("10.0.0.1, 127.0.0.0/8,::1"),
    ] {
        let launch = site.standalone();
        let writer = match trusted {
            Some(proxies) => launch.set("ARKVORY_TRUSTED_PROXIES", proxies).start().await,
            None => launch.start().await,
        };
        let believes = trusted.is_some_and(|proxies| proxies.contains("127."));
        let mut seen = BTreeSet::new();
        for path in ["/api/v1/auth/me", "/nowhere", "/health/live"] {
            for id in good {
                let answer = writer
                    .get(path)
                    .key(key::READER)
                    .header("X-Request-Id", id)
                    .answer()
                    .await;
                assert_eq!(answer.header("x-request-id") == id, believes, "{id}");
                assert!(believes || is_ours(answer.header("x-request-id")));
            }
            for id in bad {
                let answer = writer
                    .get(path)
                    .key(key::READER)
                    .header("X-Request-Id", id)
                    .answer()
                    .await;
                assert!(is_ours(answer.header("x-request-id")), "{id}");
                assert!(seen.insert(answer.header("x-request-id").to_owned()), "ids are unique");
            }
            let twice = writer
                .get(path)
                .header("X-Request-Id", good[0])
                .header("X-Request-Id", good[0])
                .answer()
                .await;
            assert!(is_ours(twice.header("x-request-id")));
        }
        drop(writer);
        site.released().await;
    }
}

/// docs/spec/environment.md 4.7.
#[tokio::test]
async fn requests_are_logged_without_what_they_hold() {
    let site = Site::new().await;
    let writer = site
        .standalone()
        .set("ARKVORY_TRUSTED_PROXIES", "127.0.0.1")
        .start()
        .await;
    let id = publish(&writer).await;
    let access = async |request: &str| -> Value {
        let find = || {
            writer
                .log()
                .into_iter()
                .find(|line| line["code"] == "http.access" && line["requestId"] == request)
        };
        eventually(Duration::from_secs(2), "the access line", async || find().is_some()).await;
        find().unwrap()
    };
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let ask = writer
        .get(&format!("{R}/artifacts/{id}/content?unheard=secretive"))
        .key(key::READER);
    let ask = ask.header("X-Request-Id", "request-1").header("traceparent", trace);
    let answer = ask.header("X-Forwarded-For", "6.6.6.6, 203.0.113.7").answer().await;
    assert_eq!(answer.headers.get("traceparent"), None, "never echoed");
    let line = access("request-1").await;
    assert_eq!(line["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(line["method"], "GET");
    assert_eq!(
        line["route"],
        "/api/v1/repositories/{repository}/artifacts/{id}/content"
    );
    assert_eq!(line["status"], 200);
    assert_eq!(line["principal"], "team");
    assert_eq!(line["clientIp"], "203.0.113.7");
    assert_eq!(line["completed"], true);
    assert!(
        line["durationMs"].is_u64() && line["bytesReceived"].as_u64().unwrap() > 100,
        "{line}"
    );
    // Headers and body.
    assert!((200..2000).contains(&line["bytesSent"].as_u64().unwrap()), "{line}");

    writer
        .get("/secretive/path")
        .header("X-Request-Id", "request-2")
        .header("traceparent", "secretive")
        .answer()
        .await;
    let line = access("request-2").await;
    assert_eq!(
        (&line["route"], &line["status"]),
        (&Value::from("unmatched"), &Value::from(404))
    );
    assert!(line.get("traceId").is_none_or(Value::is_null) && line.get("principal").is_none_or(Value::is_null));
    writer
        .get("/health/live")
        .header("X-Request-Id", "request-3")
        .answer()
        .await;
    writer
        .get("/health/status")
        .header("X-Request-Id", "request-4")
        .answer()
        .await;
    writer
        .get("/health/ready")
        .key(key::HEALTH)
        .header("X-Request-Id", "request-5")
        .answer()
        .await;
    access("request-5").await;
    for line in writer.log() {
        let text = line.to_string();
        assert!(
            !text.contains("secretive") && !text.contains("there") && !text.contains(&id),
            "{text}"
        );
        assert!(
            line["requestId"] != "request-3" && line["requestId"] != "request-4",
            "{text}"
        );
        assert!(text.len() <= 4096);
    }
}

#[tokio::test]
async fn the_access_log_can_be_switched_off() {
    let site = Site::new().await;
    let writer = site.standalone().set("ARKVORY_ACCESS_LOG", "false").start().await;
    publish(&writer).await;
    writer.get("/nowhere").answer().await;
    assert_eq!(writer.logged("http.access"), 0);
}

/// An answer that broke off is no complete one in the log.
#[tokio::test]
async fn the_access_log_tells_whether_the_answer_was_complete() {
    let site = Site::new().await;
    let writer = site
        .standalone()
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "65536")
        .start()
        .await;
    let body = vec![7; 512 << 10];
    writer
        .ask("PUT", &format!("{R}/raw/large"))
        .key(key::WRITER)
        .body(body)
        .answer()
        .await;
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("GET", &format!("{R}/raw/large"), key::READER, ""))
        .await;
    wire.answer_head().await.unwrap();
    wire.take(1).await;
    wire.reset();
    let line = || {
        writer
            .log()
            .into_iter()
            .find(|line| line["code"] == "http.access" && line["method"] == "GET")
    };
    eventually(Duration::from_secs(3), "the access line", async || line().is_some()).await;
    let line = line().unwrap();
    assert_eq!(
        (&line["status"], &line["completed"]),
        (&Value::from(200), &Value::from(false))
    );
    assert!(line["bytesSent"].as_u64().unwrap() < 512 << 10);
}

/// What is no request at all costs its connection and nothing else.
#[tokio::test]
async fn garbage_ends_its_connection_and_nothing_else() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    publish(&writer).await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(1 << 20));
    let fat = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Fat: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-Many: x\r\n".repeat(1000));
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"PUT /api/v1/repositories/releases/raw/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT /api/v1/repositories/releases/raw/x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"PUT /api/v1/repositories/releases/raw/x HTTP/1.1\r\nTransfer-Encoding: chunked, x\r\n\r\n5\r\nhello\r\n",
        long.as_bytes(),
        fat.as_bytes(),
        many.as_bytes(),
    ] {
        let mut wire = Wire::open(&writer).await;
        wire.try_send(garbage).await;
        let said = wire.rest().await;
        assert!(
            said.is_empty() || said.starts_with(b"HTTP/1.1 4"),
            "{:?}",
            String::from_utf8_lossy(&said)
        );
    }
    // A chunk that is none breaks an upload off.
    let mut wire = Wire::open(&writer).await;
    let chunked = Wire::head(
        "PUT",
        &format!("{R}/raw/x"),
        key::WRITER,
        "Transfer-Encoding: chunked\r\n",
    );
    wire.send(chunked + "5\r\nhello\r\nzz\r\n").await;
    let said = wire.answer_head().await;
    assert!(said.is_none_or(|(status, _)| status >= 400));
    eventually(Duration::from_secs(2), "nothing is left", async || {
        site.is_clean().await
    })
    .await;
    assert_eq!(
        writer
            .get(&format!("{R}/raw/there"))
            .key(key::READER)
            .answer()
            .await
            .status,
        200
    );
}

/// Requests that come at once are answered in order; what comes behind them is not mistaken for a part of them.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    publish(&writer).await;
    let mut wire = Wire::open(&writer).await;
    let get = Wire::head("GET", &format!("{R}/raw/there"), key::READER, "");
    let put = Wire::head("PUT", &format!("{R}/raw/piped"), key::WRITER, "Content-Length: 5\r\n") + "piped";
    let none = Wire::head("GET", "/nowhere", key::READER, "");
    wire.send(format!("{get}{put}{none}{get}garbage\r\n\r\n")).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(wire.answer().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 201, 404, 200]);
    let rest = wire.rest().await;
    assert!(
        rest.is_empty() || rest.starts_with(b"HTTP/1.1 400"),
        "{:?}",
        String::from_utf8_lossy(&rest)
    );
    let piped = writer.get(&format!("{R}/raw/piped")).key(key::READER).answer().await;
    assert!(piped.body == "piped");
}

/// docs/spec/http-api.md 2.1: half a request and an idle connection both end after 30 s.
#[tokio::test]
async fn idle_connections_end_after_30_seconds() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let mut half = Wire::open(&writer).await;
    half.send("GET /health/live HTTP/1.1\r\nHost: x\r\nX-Half: ").await;
    let mut idle = Wire::open(&writer).await;
    idle.send(Wire::head("GET", "/health/live", key::READER, "")).await;
    assert_eq!(idle.answer().await.unwrap().status, 200);
    let began = tokio::time::Instant::now();
    assert!(half.is_silent_for(Duration::from_secs(19)).await, "too early");
    let (half, idle) = tokio::join!(half.rest(), idle.rest());
    let waited = began.elapsed();
    assert!((28..34).contains(&waited.as_secs()), "{waited:?}");
    assert!(
        half.is_empty() || half.starts_with(b"HTTP/1.1 408"),
        "{:?}",
        String::from_utf8_lossy(&half)
    );
    assert!(idle.is_empty());
}
