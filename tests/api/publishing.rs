//! Files by path (docs/spec/http-api.md 2.7), and what a refused or broken upload leaves: nothing.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use serde_json::json;

use crate::eventually::eventually;
use crate::process::Process;
use crate::site::{Site, key, noise, sha256};
use crate::talk::{Answer, Ask, escaped, escaped_path};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";
/// How soon the remains of a broken upload are gone.
const SOON: Duration = Duration::from_secs(2);

fn put(writer: &Process, path: &str) -> Ask {
    writer.ask("PUT", &format!("{R}/raw/{path}")).key(key::WRITER)
}

fn declared(ask: Ask, bytes: &[u8]) -> Ask {
    ask.header("X-Checksum-Sha256", &sha256(bytes)).body(bytes.to_vec())
}

async fn stored(writer: &Process, path: &str) -> Answer {
    writer.get(&format!("{R}/raw/{path}")).key(key::READER).answer().await
}

/// Checks the body of a success (docs/spec/http-api.md 2.7.4) and returns the artifact's id.
#[track_caller]
fn published(answer: &Answer, status: u16, path: &str, revision: i64, bytes: &[u8]) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    let body = answer.json();
    let id = body["artifact"]["id"].as_str().unwrap().to_owned();
    let artifact = json!({ "id": id, "size": bytes.len().to_string(), "sha256": sha256(bytes) });
    assert_eq!(
        body,
        json!({ "path": path, "revision": revision, "created": status == 201, "artifact": artifact })
    );
    id
}

#[tokio::test]
async fn a_path_gets_a_revision_for_each_change() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let (one, two) = (noise(1, 300_000), noise(2, 70_000));
    let first = published(
        &declared(put(&writer, "a/b.bin"), &one).answer().await,
        201,
        "a/b.bin",
        1,
        &one,
    );
    // The same bytes again: nothing new, told from the headers or from the body.
    for ask in [
        declared(put(&writer, "a/b.bin"), &one),
        put(&writer, "a/b.bin").body(one.clone()),
    ] {
        assert_eq!(published(&ask.answer().await, 200, "a/b.bin", 1, &one), first);
    }
    let second = published(
        &put(&writer, "a/b.bin").body(two.clone()).answer().await,
        201,
        "a/b.bin",
        2,
        &two,
    );
    assert_ne!(second, first);
    assert!(stored(&writer, "a/b.bin").await.body == two);
    // Back to the first bytes: a third revision and an artifact of its own.
    let third = published(
        &declared(put(&writer, "a/b.bin"), &one).answer().await,
        201,
        "a/b.bin",
        3,
        &one,
    );
    assert!(third != first && third != second);
    let old = writer
        .get(&format!("{R}/artifacts/{second}/content"))
        .key(key::READER)
        .answer()
        .await;
    assert!(old.body == two);
    assert!(site.is_clean().await);
}

/// docs/spec/http-api.md 2.7.5: with checksum and length the body of known bytes is not read.
#[tokio::test]
async fn declared_bytes_that_are_there_are_not_sent_again() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let bytes = noise(3, 4 << 20);
    declared(put(&writer, "known"), &bytes).answer().await;
    let checksum = format!(
        "X-Checksum-Sha256: {}\r\nContent-Length: {}\r\n",
        sha256(&bytes),
        bytes.len()
    );
    let head = |more: &str| {
        Wire::head(
            "PUT",
            &format!("{R}/raw/known"),
            key::WRITER,
            &format!("{checksum}{more}"),
        )
    };

    let mut wire = Wire::open(&writer).await;
    wire.send(head("")).await;
    // Not one byte of the body has been sent.
    let answer = wire.answer().await.unwrap();
    published(&answer, 200, "known", 1, &bytes);
    assert_eq!(answer.header("connection"), "close");

    // With `Expect`, nobody asks for it either.
    let mut wire = Wire::open(&writer).await;
    wire.send(head("Expect: 100-continue\r\n")).await;
    assert_eq!(wire.answer().await.unwrap().status, 200);
    assert!(wire.rest().await.is_empty());

    // A body that is sent all the same doesn't hurt.
    let mut wire = Wire::open(&writer).await;
    wire.send(head("")).await;
    wire.try_send(&bytes).await;
    assert_eq!(wire.answer().await.unwrap().status, 200);

    // Without the checksum it must be read, and the connection goes on.
    let mut wire = Wire::open(&writer).await;
    let head = Wire::head(
        "PUT",
        &format!("{R}/raw/known"),
        key::WRITER,
        &format!("Content-Length: {}\r\n", bytes.len()),
    );
    for _ in 0..2 {
        wire.send(&head).await;
        wire.send(&bytes).await;
        let answer = wire.answer().await.unwrap();
        published(&answer, 200, "known", 1, &bytes);
        assert_ne!(answer.header("connection"), "close");
    }
    // Same length, other bytes.
    let other = noise(4, bytes.len());
    published(
        &declared(put(&writer, "known"), &other).answer().await,
        201,
        "known",
        2,
        &other,
    );
    assert!(site.is_clean().await);
}

#[tokio::test]
async fn if_none_match_allows_only_the_star() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let new = declared(put(&writer, "new"), b"one")
        .header("If-None-Match", "*")
        .answer()
        .await;
    published(&new, 201, "new", 1, b"one");
    // Also for equal bytes, and however they are sent.
    for ask in [
        declared(put(&writer, "new"), b"one"),
        put(&writer, "new").body(b"one".to_vec()),
        put(&writer, "new").body(b"two".to_vec()),
        put(&writer, "new").chunked(vec![b"one".to_vec()]),
    ] {
        ask.header("If-None-Match", "*")
            .answer()
            .await
            .expect(409, "conflict", "already_exists");
    }
    for value in ["\"sha256:00\"", "W/\"x\"", "", "**", "*, *", "\"*\"", "new"] {
        let answer = put(&writer, "other")
            .body(b"x".to_vec())
            .header("If-None-Match", value)
            .answer()
            .await;
        answer.expect_invalid("If-None-Match", "invalid");
    }
    let twice = put(&writer, "other")
        .body(b"x".to_vec())
        .header("If-None-Match", "*")
        .header("If-None-Match", "\"x\"");
    let twice = twice.answer().await;
    twice.expect(400, "invalid_input", "validation");
    assert!(twice.refused().details[0].0.eq_ignore_ascii_case("If-None-Match"));
    assert_eq!(stored(&writer, "other").await.status, 404);
    assert!(stored(&writer, "new").await.body == "one");
    assert!(site.is_clean().await);
}

/// docs/spec/http-api.md 2.7.7: nothing is stored, and the reservation is cancelled at once.
#[tokio::test]
async fn wrong_bytes_are_422_and_leave_nothing() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let wrong = sha256(b"something else");
    for size in [0, 1, 300_000] {
        let bytes = noise(5, size);
        let whole = put(&writer, "wrong").body(bytes.clone());
        let chunked = put(&writer, "wrong").chunked(vec![bytes.clone()]);
        for ask in [whole, chunked] {
            let answer = ask.header("X-Checksum-Sha256", &wrong).answer().await;
            answer.expect(422, "integrity_mismatch", "");
            assert_eq!(stored(&writer, "wrong").await.status, 404);
            assert_eq!((site.uploads("available").await, site.reserved_bytes().await), (0, 0));
            assert!(site.blobs().is_empty() && site.staged().is_empty());
            assert!(site.is_clean().await);
        }
    }
    // A path that is there keeps its bytes.
    put(&writer, "wrong").body(b"right".to_vec()).answer().await;
    let answer = put(&writer, "wrong")
        .header("X-Checksum-Sha256", &wrong)
        .body(b"wrong".to_vec())
        .answer()
        .await;
    answer.expect(422, "integrity_mismatch", "");
    assert!(stored(&writer, "wrong").await.body == "right");
    assert!(site.is_clean().await);
}

#[tokio::test]
async fn checksums_have_64_digits_of_any_case() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let sum = sha256(b"bytes");
    for (path, sum) in [("upper", sum.to_uppercase()), ("lower", sum.clone())] {
        let answer = put(&writer, path)
            .header("X-Checksum-Sha256", &sum)
            .body(b"bytes".to_vec())
            .answer()
            .await;
        published(&answer, 201, path, 1, b"bytes");
    }
    for bad in [
        "",
        "x",
        &sum[1..],
        &format!("{sum}0"),
        &sum.replacen(&sum[..1], "g", 1),
        &format!("\"{sum}\""),
    ] {
        let answer = put(&writer, "bad")
            .header("X-Checksum-Sha256", bad)
            .body(b"bytes".to_vec())
            .answer()
            .await;
        answer.expect_invalid("X-Checksum-Sha256", "format");
    }
    assert_eq!(stored(&writer, "bad").await.status, 404);
}

/// docs/spec/http-api.md 2.1: on raw routes any media type is bytes.
#[tokio::test]
async fn every_kind_of_body_is_stored_as_it_came() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let json = br#"{"not": "looked at", "not": "looked at"} trailing"#;
    let pieces: Vec<Vec<u8>> = (0..50)
        .map(|n| noise(n, 1 + usize::try_from(n).unwrap() * 997))
        .collect();
    let all = pieces.concat();
    let cases = [
        (
            "json",
            put(&writer, "json")
                .header("Content-Type", "application/json")
                .body(json.to_vec()),
            &json[..],
        ),
        (
            "form",
            put(&writer, "form")
                .header("Content-Type", "multipart/form-data; boundary=x")
                .body(b"--x".to_vec()),
            b"--x",
        ),
        (
            "odd",
            put(&writer, "odd").header("Content-Type", ";;;").body(b"odd".to_vec()),
            b"odd",
        ),
        ("none", put(&writer, "none").body(b"none".to_vec()), b"none"),
        ("chunked", put(&writer, "chunked").chunked(pieces.clone()), &all),
        (
            "checked",
            put(&writer, "checked")
                .chunked(pieces.clone())
                .header("X-Checksum-Sha256", &sha256(&all)),
            &all,
        ),
        ("empty", put(&writer, "empty").body(Vec::new()), b""),
        ("declared-empty", declared(put(&writer, "declared-empty"), b""), b""),
        ("empty-chunked", put(&writer, "empty-chunked").chunked(Vec::new()), b""),
    ];
    for (path, ask, bytes) in cases {
        published(&ask.answer().await, 201, path, 1, bytes);
        assert!(stored(&writer, path).await.body == bytes, "{path}");
    }
    // No body at all, not even a length.
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("PUT", &format!("{R}/raw/bare"), key::WRITER, ""))
        .await;
    published(&wire.answer().await.unwrap(), 201, "bare", 1, b"");
    assert!(site.is_clean().await);
}

/// docs/spec/http-api.md 2.7.7. Both requests have begun before either ends.
#[tokio::test]
async fn of_two_writers_of_one_path_one_wins() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let base = b"base".to_vec();
    put(&writer, "known").body(base.clone()).answer().await;
    let star = "If-None-Match: *\r\n";
    for (path, more, reason) in [
        ("known", "", "revision_mismatch"),
        ("new", "", "revision_mismatch"),
        ("newest", star, "already_exists"),
    ] {
        let artifacts = site.uploads("available").await;
        let bodies = [noise(6, 100_000), noise(7, 90_000)];
        let mut wires = Vec::new();
        for body in &bodies {
            let mut wire = Wire::open(&writer).await;
            let length = format!("Content-Length: {}\r\n{more}", body.len());
            wire.send(Wire::head("PUT", &format!("{R}/raw/{path}"), key::WRITER, &length))
                .await;
            wire.send(&body[..50_000]).await;
            wires.push(wire);
        }
        // A file is staged only after the path was looked at.
        eventually(SOON, "both are being received", async || site.staged().len() == 2).await;
        let mut answers = Vec::new();
        for (wire, body) in wires.iter_mut().zip(&bodies) {
            wire.send(&body[50_000..]).await;
            answers.push(wire.answer().await.unwrap());
        }
        assert_eq!(answers[0].status, 201);
        answers[1].expect(409, "conflict", reason);
        assert!(stored(&writer, path).await.body == bodies[0]);
        // The loser's bytes stay, as an artifact that no path names; but not where the path had to be new.
        let kept = if more == star { 1 } else { 2 };
        assert_eq!(site.uploads("available").await, artifacts + kept);
        assert!(site.is_clean().await);
    }
    // With nothing to hold them in step, each of many either follows the others or is told.
    let bodies: Vec<Vec<u8>> = (0..12).map(|n| noise(100 + n, 20_000)).collect();
    let asks = bodies
        .iter()
        .map(|body| put(&writer, "crowded").body(body.clone()).answer());
    let answers = futures_util::future::join_all(asks).await;
    let mut winners = 0;
    for answer in &answers {
        if answer.status == 201 {
            winners += 1;
        } else {
            answer.expect(409, "conflict", "revision_mismatch");
        }
    }
    let asset = writer
        .get(&format!("{R}/asset?path=crowded"))
        .key(key::READER)
        .answer()
        .await;
    assert_eq!(asset.json()["revision"], winners);
    assert!(winners >= 1 && site.is_clean().await);
}

/// The client goes away before the declared end.
#[tokio::test]
async fn a_body_that_ends_early_leaves_nothing() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let bytes = noise(8, 400_000);
    let length = format!("Content-Length: {}\r\n", bytes.len());
    let sum = format!("{length}X-Checksum-Sha256: {}\r\n", sha256(&bytes));
    let chunked = "Transfer-Encoding: chunked\r\n".to_owned();
    for (kind, more) in [("length", &length), ("declared", &sum), ("chunked", &chunked)] {
        for how in ["end", "half", "reset"] {
            let path = format!("{kind}/{how}");
            let mut wire = Wire::open(&writer).await;
            wire.send(Wire::head("PUT", &format!("{R}/raw/{path}"), key::WRITER, more))
                .await;
            if kind == "chunked" {
                wire.send("30d40\r\n").await;
            }
            wire.send(&bytes[..200_000]).await;
            eventually(SOON, "it is being received", async || !site.staged().is_empty()).await;
            match how {
                "end" => drop(wire),
                "half" => {
                    wire.finish_sending().await;
                    // Whatever is said to one who still listens, it is no success.
                    let said = wire.answer_head().await;
                    assert!(said.is_none_or(|(status, _)| status >= 400), "{path}");
                }
                _ => wire.reset(),
            }
            eventually(SOON, "nothing is left", async || {
                site.staged().is_empty() && site.is_clean().await
            })
            .await;
            assert_eq!(stored(&writer, &path).await.status, 404, "{path}");
        }
    }
    assert_eq!((site.uploads("available").await, site.blobs().len()), (0, 0));
}

#[tokio::test]
async fn a_client_that_expects_100_is_asked_for_the_body_only_when_it_is_wanted() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let expecting = |path: &str, key: &str| {
        Wire::head(
            "PUT",
            &format!("{R}/raw/{path}"),
            key,
            "Content-Length: 5\r\nExpect: 100-continue\r\n",
        )
    };
    let mut wire = Wire::open(&writer).await;
    wire.send(expecting("wanted", key::WRITER)).await;
    assert_eq!(wire.answer_head().await.unwrap().0, 100);
    wire.send("bytes").await;
    published(&wire.answer().await.unwrap(), 201, "wanted", 1, b"bytes");
    for (path, key, status) in [
        ("unwanted", key::READER, 403),
        ("unwanted", key::UNKNOWN, 401),
        ("un:wanted", key::WRITER, 400),
    ] {
        let mut wire = Wire::open(&writer).await;
        wire.send(expecting(path, key)).await;
        assert_eq!(wire.answer().await.unwrap().status, status, "{path}");
    }
}

/// docs/spec/http-api.md 2.7.2. Sent byte by byte, because clients tidy such paths up.
#[tokio::test]
async fn paths_that_leave_their_place_are_400() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let long = escaped(&"\u{fc}".repeat(1025));
    for path in [
        "a//b",
        "/a",
        "a/",
        "./a",
        "a/.",
        "../a",
        "a/../b",
        "a/..",
        "..",
        ".",
        "%2e%2e",
        "%2E%2E/a",
        "a/%2e%2e/b",
        "a/.%2e",
        "%2e",
        "C%3A/b",
        "C:/b",
        "a%5Cb",
        "a\\b",
        "a%2Fb",
        "a%2fb",
        "..%2F..%2Fetc",
        "a%00b",
        "a%0Ab",
        "a%7Fb",
        "a%C2%85b",
        "%ff",
        "a%ED%A0%80b",
        "%C0%AE%C0%AE/a",
        &"x".repeat(1025),
        &format!("{}/y", "x".repeat(1023)),
        &long,
    ] {
        for method in ["PUT", "GET"] {
            let mut wire = Wire::open(&writer).await;
            let head = Wire::head(method, &format!("{R}/raw/{path}"), key::WRITER, "Content-Length: 0\r\n");
            wire.send(head).await;
            let answer = wire
                .answer()
                .await
                .unwrap_or_else(|| panic!("no answer to {method} {path}"));
            assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
            // What is no URL at all never gets as far as a route.
            if path != "a\\b" || answer.refused().reason == "validation" {
                answer.expect_invalid("path", "format");
            }
        }
    }
    for path in ["", "/"] {
        let mut wire = Wire::open(&writer).await;
        wire.send(Wire::head(
            "PUT",
            &format!("{R}/raw{path}"),
            key::WRITER,
            "Content-Length: 0\r\n",
        ))
        .await;
        wire.answer().await.unwrap().expect(404, "not_found", "route_not_found");
    }
    assert!(site.is_clean().await && site.uploads("available").await == 0);
    let root = std::fs::read_dir(site.data()).unwrap().count();
    assert_eq!(root, 4, "blobs, parts, staging, storage-id");
}

/// Dots inside of names are no steps.
#[tokio::test]
async fn odd_but_legal_paths_work() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let longest = "\u{1f600}".repeat(1024);
    let deep = vec!["d"; 512].join("/");
    for path in [
        "a..b", "..a", "a..", "...", "a/...b/c", "v1.0", " ", "a b", "~", "%25", "a?b#c", "%2e%2e", &longest, &deep,
    ] {
        let encoded = escaped_path(path);
        let bytes = path.as_bytes();
        let mut wire = Wire::open(&writer).await;
        let length = format!("Content-Length: {}\r\n", bytes.len());
        wire.send(Wire::head("PUT", &format!("{R}/raw/{encoded}"), key::WRITER, &length))
            .await;
        wire.send(bytes).await;
        published(&wire.answer().await.unwrap(), 201, path, 1, bytes);
        wire.send(Wire::head(
            "GET",
            &format!("{R}/asset/content?path={encoded}"),
            key::WRITER,
            "",
        ))
        .await;
        let answer = wire.answer().await.unwrap();
        assert!(answer.status == 200 && answer.body == bytes, "{path}: {answer:?}");
    }
}

/// docs/spec/environment.md 4.4: the capacity counts every reserved byte, equal bytes twice.
#[tokio::test]
async fn the_capacity_is_not_exceeded() {
    let site = Site::new().await;
    let writer = site.standalone().set("ARKVORY_CAPACITY_BYTES", "100").start().await;
    let (sixty, forty) = (noise(9, 60), noise(10, 40));
    published(
        &declared(put(&writer, "sixty"), &sixty).answer().await,
        201,
        "sixty",
        1,
        &sixty,
    );
    for ask in [
        declared(put(&writer, "again"), &sixty),
        put(&writer, "again").body(sixty.clone()),
        put(&writer, "again").chunked(vec![noise(11, 41)]),
    ] {
        let answer = ask.answer().await;
        answer.expect(507, "capacity_exceeded", "catalog_limit");
        assert!(site.is_clean().await);
    }
    // The same bytes at the same path need no room.
    published(
        &declared(put(&writer, "sixty"), &sixty).answer().await,
        200,
        "sixty",
        1,
        &sixty,
    );
    published(
        &put(&writer, "forty").body(forty.clone()).answer().await,
        201,
        "forty",
        1,
        &forty,
    );
    published(
        &put(&writer, "nothing").body(Vec::new()).answer().await,
        201,
        "nothing",
        1,
        b"",
    );
    put(&writer, "one")
        .body(vec![1])
        .answer()
        .await
        .expect(507, "capacity_exceeded", "catalog_limit");
    assert_eq!(site.reserved_bytes().await, 100);
}

/// docs/spec/cases.md 9.10.1: as many at once as there are, they can't overbook.
#[tokio::test]
async fn uploads_at_once_do_not_overbook() {
    let site = Site::new().await;
    let writer = site.standalone().set("ARKVORY_CAPACITY_BYTES", "100").start().await;
    let bodies: Vec<Vec<u8>> = (0..20).map(|n| noise(200 + n, 30)).collect();
    let paths: Vec<String> = (0..20).map(|n| format!("file-{n}")).collect();
    let asks = paths
        .iter()
        .zip(&bodies)
        .map(|(path, body)| declared(put(&writer, path), body).answer());
    let answers = futures_util::future::join_all(asks).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 3);
    assert_eq!(answers.iter().filter(|answer| answer.status == 507).count(), 17);
    assert!(site.is_clean().await);
}

#[tokio::test]
async fn an_object_has_a_largest_size() {
    let site = Site::new().await;
    let writer = site.standalone().set("ARKVORY_MAX_OBJECT_BYTES", "1000").start().await;
    let (fits, more) = (noise(12, 1000), noise(13, 1001));
    published(
        &put(&writer, "fits").body(fits.clone()).answer().await,
        201,
        "fits",
        1,
        &fits,
    );
    for ask in [
        declared(put(&writer, "more"), &more),
        put(&writer, "more").body(more.clone()),
        put(&writer, "more").chunked(vec![more.clone()]),
    ] {
        ask.answer().await.expect(413, "invalid_input", "body_too_large");
        assert!(site.is_clean().await);
    }
    let capabilities = writer.get("/api/v1/capabilities").key(key::READER).answer().await;
    assert_eq!(capabilities.json()["limits"]["maxObjectBytes"], "1000");
}

/// docs/spec/http-api.md 2.5.9: refused before the body, the answer arrives whole, however much the client goes on
/// sending; and the server does not read it all.
#[tokio::test]
async fn a_refusal_arrives_before_the_body_is_read() {
    let site = Site::new().await;
    let writer = site.standalone().set("ARKVORY_MAX_OBJECT_BYTES", "1000").start().await;
    let raw = format!("{R}/raw/x");
    let foreign = "/api/v1/repositories/attic/raw/x".to_owned();
    let five_gib = "Content-Length: 5368709120\r\n";
    let sum = format!("{five_gib}X-Checksum-Sha256: x\r\n");
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (method, url, key, more, status) in [
        ("PUT", raw.clone(), key::UNKNOWN, five_gib, 401),
        ("PUT", raw.clone(), key::READER, five_gib, 403),
        ("PUT", foreign, key::WRITER, five_gib, 403),
        ("PUT", raw.clone(), key::WRITER, five_gib, 413),
        ("PUT", raw.clone(), key::WRITER, &sum, 400),
        ("PUT", format!("{R}/raw/a%5Cb"), key::WRITER, five_gib, 400),
        ("PUT", raw.clone(), key::READER, chunked, 403),
        ("POST", raw.clone(), key::WRITER, five_gib, 405),
        ("PUT", format!("{R}/nowhere"), key::WRITER, five_gib, 404),
        ("PUT", format!("{R}/artifacts"), key::WRITER, five_gib, 405),
    ] {
        let mut wire = Wire::open(&writer).await;
        wire.send(Wire::head(method, &url, key, more)).await;
        if more == chunked {
            wire.send("7fffffff\r\n").await;
        }
        // 64 MiB is more than the socket buffers of both sides hold, so most of it must have been dropped.
        let piece = vec![0; 1 << 20];
        let mut sent = 0;
        while sent < 64 && wire.try_send(&piece).await {
            sent += 1;
        }
        assert!(sent < 64, "{method} {url}: everything was read");
        let answer = wire
            .answer()
            .await
            .unwrap_or_else(|| panic!("{method} {url}: the answer was lost"));
        assert_eq!(answer.status, status, "{method} {url}: {answer:?}");
        assert_eq!(answer.header("connection"), "close", "{method} {url}");
    }
    assert!(site.is_clean().await);
}

/// docs/spec/storage.md 7.2.10.
#[tokio::test]
async fn equal_bytes_share_an_inode() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let bytes = noise(14, 100_000);
    let mut ids = Vec::new();
    for path in ["one", "two", "three/four"] {
        ids.push(published(
            &put(&writer, path).body(bytes.clone()).answer().await,
            201,
            path,
            1,
            &bytes,
        ));
    }
    let inodes: Vec<(u64, u64)> = ids
        .iter()
        .map(|id| site.blob(id).metadata().unwrap())
        .map(|found| (found.ino(), found.nlink()))
        .collect();
    assert!(inodes.iter().all(|inode| *inode == (inodes[0].0, 3)), "{inodes:?}");
    // They count apart.
    assert_eq!(site.reserved_bytes().await, 300_000);
    // In another repository too, and its readers need no right here.
    let attic = writer
        .ask("PUT", "/api/v1/repositories/attic/raw/one")
        .key(key::ATTIC)
        .body(bytes.clone())
        .answer()
        .await;
    assert_eq!(attic.status, 201);
    assert_eq!(site.blob(&ids[0]).metadata().unwrap().nlink(), 4);

    // Equal bytes that come at the same moment.
    let bytes = noise(15, 50_000);
    let paths: Vec<String> = (0..8).map(|n| format!("together/{n}")).collect();
    let asks = paths.iter().map(|path| put(&writer, path).body(bytes.clone()).answer());
    for answer in futures_util::future::join_all(asks).await {
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    for path in &paths {
        assert!(stored(&writer, path).await.body == bytes);
    }
    assert!(site.is_clean().await);
}

/// docs/spec/storage.md 7.2.10: good bytes are not dropped in favour of a damaged file.
#[tokio::test]
async fn a_damaged_file_does_not_swallow_good_bytes() {
    let site = Site::new().await;
    let writer = site.standalone().allow("storage.blob_damaged").start().await;
    let bytes = noise(16, 10_000);
    let damaged = published(
        &put(&writer, "first").body(bytes.clone()).answer().await,
        201,
        "first",
        1,
        &bytes,
    );
    let mut broken = bytes.clone();
    broken[5000] ^= 1;
    std::fs::write(site.blob(&damaged), &broken).unwrap();
    published(
        &put(&writer, "second").body(bytes.clone()).answer().await,
        201,
        "second",
        1,
        &bytes,
    );
    assert!(stored(&writer, "second").await.body == bytes);
}

#[tokio::test]
async fn files_are_private_to_the_processes_user() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = published(&put(&writer, "x").body(b"x".to_vec()).answer().await, 201, "x", 1, b"x");
    assert_eq!(site.blob(&id).metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(site.data().join("storage-id").metadata().unwrap().mode() & 0o777, 0o600);
}

/// Many small files at once.
#[tokio::test]
async fn uploads_run_side_by_side() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let files: Vec<(String, Vec<u8>)> = (0..60).map(|n| (format!("many/{n}"), noise(300 + n, 5000))).collect();
    let asks = files
        .iter()
        .map(|(path, bytes)| declared(put(&writer, path), bytes).answer());
    for answer in futures_util::future::join_all(asks).await {
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    for (path, bytes) in &files {
        assert!(stored(&writer, path).await.body == bytes);
    }
    assert!(site.is_clean().await);
}

/// Twenty CI jobs that publish the same build: nobody is told of a conflict, and nothing of the losers stays.
#[tokio::test]
async fn equal_bytes_at_once_are_no_conflict() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let bytes = noise(31, 300_000);
    for (path, with_digest) in [("same/plain", false), ("same/declared", true)] {
        let ask = || {
            if with_digest {
                declared(put(&writer, path), &bytes)
            } else {
                put(&writer, path).body(bytes.clone())
            }
        };
        let answers = futures_util::future::join_all((0..20).map(|_| ask().answer())).await;
        let ids: std::collections::BTreeSet<String> = answers
            .iter()
            .map(|answer| published(answer, answer.status, path, 1, &bytes))
            .collect();
        assert_eq!(ids.len(), 1, "all are told of the same artifact");
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
        assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 201)));
    }
    eventually(SOON, "the losers' copies are gone", async || {
        site.uploads("available").await == 2 && site.blobs().len() == 2 && site.staged().is_empty()
    })
    .await;
    assert_eq!(site.reserved_bytes().await, 600_000);
}

#[tokio::test]
async fn a_lost_race_for_a_new_path_leaves_nothing() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let asks = (0..8).map(|i| {
        put(&writer, "new")
            .header("If-None-Match", "*")
            .body(noise(i, 200_000))
            .answer()
    });
    let answers = futures_util::future::join_all(asks).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        answer.expect(409, "conflict", "already_exists");
    }
    eventually(SOON, "the losers' bytes are gone", async || {
        site.uploads("available").await == 1 && site.blobs().len() == 1 && site.staged().is_empty()
    })
    .await;
    assert_eq!(site.reserved_bytes().await, 200_000);
}

/// curl's `-C` with `-T` sends the rest of a file: published, it would be a truncated artifact.
#[tokio::test]
async fn a_part_is_not_taken_for_the_file() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let answer = put(&writer, "part")
        .header("Content-Range", "bytes 3-8/9")
        .body(b"second".to_vec())
        .answer()
        .await;
    answer.expect_invalid("Content-Range", "invalid");
    assert_eq!(stored(&writer, "part").await.status, 404);
}
