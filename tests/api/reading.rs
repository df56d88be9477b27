//! Reading bytes (docs/spec/http-api.md 2.6), by all three ways.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::eventually::eventually;
use crate::process::Process;
use crate::site::{Site, key, noise, sha256};
use crate::talk::{Answer, escaped};
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";

/// Publishes bytes and returns the artifact's id.
async fn publish(writer: &Process, path: &str, bytes: &[u8]) -> String {
    let put = writer
        .ask("PUT", &format!("{R}/raw/{path}"))
        .key(key::WRITER)
        .body(bytes.to_vec())
        .answer()
        .await;
    assert!(matches!(put.status, 200 | 201), "{put:?}");
    put.json()["artifact"]["id"].as_str().unwrap().to_owned()
}

/// The three ways to the bytes of one path, and whether the answer names the artifact.
fn ways(id: &str, path: &str) -> [(String, bool); 3] {
    [
        (format!("{R}/artifacts/{id}/content"), false),
        (format!("{R}/asset/content?path={path}"), false),
        (format!("{R}/raw/{path}"), true),
    ]
}

/// What answers are compared with.
struct Content {
    bytes: Vec<u8>,
    etag: String,
}

impl Content {
    fn of(bytes: Vec<u8>) -> Self {
        let etag = format!("\"sha256:{}\"", sha256(&bytes));
        Self { bytes, etag }
    }
}

/// What a row of the table answers.
#[derive(Clone, Copy)]
enum Then {
    /// 304.
    NotModified,
    /// 200.
    Whole,
    /// 206 with these bytes, first and last.
    Part(usize, usize),
    /// 416.
    Unsatisfiable,
}
use Then::{NotModified, Part, Unsatisfiable, Whole};

/// Method, headers, and what is answered.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Then);

/// Checks one answer completely.
fn check(answer: &Answer, then: Then, head: bool, content: &Content, id: Option<&str>, row: &str) {
    let Content { bytes, etag } = content;
    let size = bytes.len();
    let body: &[u8] = match then {
        NotModified => {
            assert_eq!((answer.status, answer.header("etag")), (304, &**etag), "{row}");
            assert!(!answer.headers.contains_key("content-range"), "{row}");
            return;
        }
        Unsatisfiable => {
            answer.expect(416, "invalid_input", "range_not_satisfiable");
            assert_eq!(answer.header("content-range"), format!("bytes */{size}"), "{row}");
            assert_eq!(answer.header("content-disposition"), "", "{row}");
            return;
        }
        Whole => {
            assert_eq!((answer.status, answer.header("content-range")), (200, ""), "{row}");
            bytes
        }
        Part(first, last) => {
            assert_eq!(answer.status, 206, "{row}");
            assert_eq!(
                answer.header("content-range"),
                format!("bytes {first}-{last}/{size}"),
                "{row}"
            );
            &bytes[first..=last]
        }
    };
    assert_eq!(answer.header("content-length"), body.len().to_string(), "{row}");
    assert_eq!(answer.header("etag"), etag, "{row}");
    assert_eq!(answer.header("accept-ranges"), "bytes", "{row}");
    assert_eq!(answer.header("content-type"), "application/octet-stream", "{row}");
    assert!(
        answer
            .header("content-disposition")
            .starts_with("attachment; filename*=UTF-8''"),
        "{row}"
    );
    assert_eq!(answer.header("x-arkvory-artifact-id"), id.unwrap_or_default(), "{row}");
    let body = if head { &[] } else { body };
    assert!(
        answer.body == body,
        "{row}: {} bytes, some of them wrong",
        answer.body.len()
    );
}

/// Asks every row by all ways. `{etag}` in a header stands for the entity tag, `{weak}` for its weak form.
async fn table(content: &Content, rows: &[Row<'_>]) {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer, "some/file.bin", &content.bytes).await;
    let etag = &content.etag;
    for (url, names_artifact) in ways(&id, "some/file.bin") {
        for (method, headers, then) in rows {
            let mut ask = writer.ask(method, &url).key(key::READER);
            for (name, value) in *headers {
                ask = ask.header(
                    name,
                    &value.replace("{etag}", etag).replace("{weak}", &format!("W/{etag}")),
                );
            }
            let answer = ask.answer().await;
            let row = format!("{method} {url} {headers:?}: {answer:?}");
            check(
                &answer,
                *then,
                *method == "HEAD",
                content,
                names_artifact.then_some(&*id),
                &row,
            );
        }
    }
}

#[tokio::test]
async fn ranges_and_conditions_are_decided_by_the_table() {
    let hundred = Content::of((0..100).collect());
    table(
        &hundred,
        &[
            // a: If-None-Match, before Range
            ("GET", &[("if-none-match", "{etag}")], NotModified),
            ("GET", &[("if-none-match", "*")], NotModified),
            ("GET", &[("if-none-match", "{weak}")], NotModified),
            ("GET", &[("if-none-match", "\"x\", {etag}")], NotModified),
            ("GET", &[("if-none-match", "\"x\",W/\"y\" , {weak}")], NotModified),
            (
                "GET",
                &[("if-none-match", "{etag}"), ("range", "bytes=0-1")],
                NotModified,
            ),
            (
                "GET",
                &[("if-none-match", "{etag}"), ("range", "bytes=100-")],
                NotModified,
            ),
            ("HEAD", &[("if-none-match", "{etag}")], NotModified),
            ("GET", &[("if-none-match", "\"x\"")], Whole),
            ("GET", &[("if-none-match", "\"x\""), ("range", "bytes=1-2")], Part(1, 2)),
            // b: HEAD
            ("HEAD", &[], Whole),
            ("HEAD", &[("range", "bytes=1-2")], Whole),
            ("HEAD", &[("range", "bytes=100-")], Whole),
            ("HEAD", &[("range", "bytes=1-2"), ("if-range", "{etag}")], Whole),
            // c: If-Range
            ("GET", &[("range", "bytes=1-2"), ("if-range", "{etag}")], Part(1, 2)),
            ("GET", &[("range", "bytes=100-"), ("if-range", "{etag}")], Unsatisfiable),
            ("GET", &[("range", "bytes=1-2"), ("if-range", "\"sha256:00\"")], Whole),
            ("GET", &[("range", "bytes=100-"), ("if-range", "\"sha256:00\"")], Whole),
            ("GET", &[("range", "bytes=1-2"), ("if-range", "{weak}")], Whole),
            (
                "GET",
                &[("range", "bytes=1-2"), ("if-range", "Sun, 06 Nov 1994 08:49:37 GMT")],
                Whole,
            ),
            ("GET", &[("range", "bytes=1-2"), ("if-range", "{etag}, {etag}")], Whole),
            ("GET", &[("if-range", "{etag}")], Whole),
            // d: nothing
            ("GET", &[], Whole),
            // e: several ranges
            ("GET", &[("range", "bytes=0-1,3-4")], Whole),
            ("GET", &[("range", "bytes=0-1,")], Whole),
            // f: not a range of ours
            ("GET", &[("range", "items=0-1")], Whole),
            ("GET", &[("range", "bytes=-")], Whole),
            ("GET", &[("range", "bytes=5-4")], Whole),
            ("GET", &[("range", "bytes=500-4")], Whole),
            ("GET", &[("range", "bytes")], Whole),
            ("GET", &[("range", "bytes=")], Whole),
            ("GET", &[("range", "bytes=1")], Whole),
            ("GET", &[("range", "bytes=a-b")], Whole),
            ("GET", &[("range", "bytes=1-2x")], Whole),
            ("GET", &[("range", "bytes=+1-2")], Whole),
            ("GET", &[("range", "bytes=--1")], Whole),
            ("GET", &[("range", "bytes=0x1-2")], Whole),
            ("GET", &[("range", "bytes=1.5-2")], Whole),
            // g: from, and from to
            ("GET", &[("range", "bytes=0-0")], Part(0, 0)),
            ("GET", &[("range", "bytes=13-42")], Part(13, 42)),
            ("GET", &[("range", "bytes=90-")], Part(90, 99)),
            ("GET", &[("range", "bytes=0-")], Part(0, 99)),
            ("GET", &[("range", "bytes=99-99")], Part(99, 99)),
            ("GET", &[("range", "bytes=99-")], Part(99, 99)),
            ("GET", &[("range", "bytes=90-100")], Part(90, 99)),
            ("GET", &[("range", "bytes=90-4096")], Part(90, 99)),
            // h: the last ones
            ("GET", &[("range", "bytes=-1")], Part(99, 99)),
            ("GET", &[("range", "bytes=-100")], Part(0, 99)),
            ("GET", &[("range", "bytes=-10000")], Part(0, 99)),
            ("GET", &[("range", "bytes=-0")], Unsatisfiable),
            // i: behind the end
            ("GET", &[("range", "bytes=100-")], Unsatisfiable),
            ("GET", &[("range", "bytes=100-200")], Unsatisfiable),
            // j: huge
            ("GET", &[("range", "bytes=0-9007199254740993")], Part(0, 99)),
            ("GET", &[("range", "bytes=0-99999999999999999999999999")], Part(0, 99)),
            ("GET", &[("range", "bytes=18446744073709551616-")], Unsatisfiable),
            (
                "GET",
                &[("range", "bytes=99999999999999999999999998-99999999999999999999999999")],
                Unsatisfiable,
            ),
            (
                "GET",
                &[("range", "bytes=99999999999999999999999999-99999999999999999999999998")],
                Whole,
            ),
            ("GET", &[("range", "bytes=-99999999999999999999999999")], Part(0, 99)),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_empty_file_has_no_range() {
    table(
        &Content::of(Vec::new()),
        &[
            ("GET", &[], Whole),
            ("HEAD", &[], Whole),
            ("GET", &[("if-none-match", "{etag}")], NotModified),
            ("GET", &[("range", "bytes=0-")], Unsatisfiable),
            ("GET", &[("range", "bytes=0-0")], Unsatisfiable),
            ("GET", &[("range", "bytes=-1")], Unsatisfiable),
            ("GET", &[("range", "bytes=-0")], Unsatisfiable),
            ("GET", &[("range", "bytes=0-1,2-3")], Whole),
            ("GET", &[("range", "bytes=0-0"), ("if-range", "\"x\"")], Whole),
            ("GET", &[("range", "nonsense")], Whole),
        ],
    )
    .await;
}

/// docs/spec/http-api.md 2.6.1: only the extended form, and only characters that RFC 8187 lets stand.
#[tokio::test]
async fn names_are_sent_in_the_extended_form() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let names = [
        "plain.tar.gz",
        "B\u{fc}cher (1)*'.txt",
        "\u{65e5}\u{672c}\u{8a9e}.zip",
        "\u{1f600}.png",
        "100% \"quoted\";x=y&z+a,b",
        "~a!b#c$d^e`f|g.h-i_j",
    ];
    for name in names {
        let encoded = escaped(name);
        let id = publish(&writer, &format!("folder/{encoded}"), name.as_bytes()).await;
        for (url, _) in ways(&id, &format!("folder/{encoded}")) {
            let answer = writer.get(&url).key(key::READER).answer().await;
            let disposition = answer.header("content-disposition");
            let value = disposition
                .strip_prefix("attachment; filename*=UTF-8''")
                .expect("the extended form");
            let stands = |c: u8| c.is_ascii_alphanumeric() || b"!#$&+-.^_`|~%".contains(&c);
            assert!(value.bytes().all(stands), "{disposition}");
            assert_eq!(percent_encoding::percent_decode_str(value).decode_utf8().unwrap(), name);
        }
    }
    let answer = writer
        .get(&format!("{R}/raw/folder/B%C3%BCcher%20%281%29%2A%27.txt"))
        .key(key::READER)
        .answer()
        .await;
    assert_eq!(
        answer.header("content-disposition"),
        "attachment; filename*=UTF-8''B%C3%BCcher%20%281%29%2A%27.txt"
    );
}

/// Ranges around the sizes in which files are read and sent, against a file of several pieces.
#[tokio::test]
async fn ranges_of_a_large_file_are_exact() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let content = Content::of(noise(1, (3 << 20) + 7));
    let bytes = &content.bytes;
    let id = publish(&writer, "large", bytes).await;
    let url = format!("{R}/artifacts/{id}/content");
    let whole = writer.get(&url).key(key::READER).answer().await;
    assert!(whole.body == *bytes);
    let length = bytes.len();
    for edge in [16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 2 << 20, 3 << 20] {
        for (first, last) in [
            (edge - 1, edge),
            (edge, edge),
            (edge, edge + 65_536),
            (0, edge - 1),
            (edge - 3, length - 1),
        ] {
            let range = format!("bytes={first}-{last}");
            let answer = writer.get(&url).key(key::READER).header("range", &range).answer().await;
            let last = last.min(length - 1);
            check(&answer, Part(first, last), false, &content, None, &range);
        }
    }
}

#[tokio::test]
async fn a_broken_download_is_resumed() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let content = Content::of(noise(2, 4 << 20));
    let bytes = &content.bytes;
    publish(&writer, "resumed", bytes).await;
    let url = format!("{R}/raw/resumed");

    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("GET", &url, key::READER, "")).await;
    let (status, headers) = wire.answer_head().await.unwrap();
    assert_eq!(status, 200);
    let etag = headers["etag"].to_str().unwrap().to_owned();
    let kept = wire.take(bytes.len() * 37 / 100).await;
    wire.reset();

    let range = format!("bytes={}-", kept.len());
    // wget --continue and curl -C send only Range; others add If-Range.
    for headers in [vec![("range", &range)], vec![("range", &range), ("if-range", &etag)]] {
        let mut ask = writer.get(&url).key(key::READER);
        for (name, value) in headers {
            ask = ask.header(name, value);
        }
        let rest = ask.answer().await;
        check(
            &rest,
            Part(kept.len(), bytes.len() - 1),
            false,
            &content,
            Some(rest.header("x-arkvory-artifact-id")),
            "rest",
        );
    }
    // A file that is complete already.
    let all = format!("bytes={}-", bytes.len());
    writer
        .get(&url)
        .key(key::READER)
        .header("range", &all)
        .answer()
        .await
        .expect(416, "invalid_input", "range_not_satisfiable");

    // Other bytes of the same length come to the path: a splice would be neither file.
    let other = Content::of(noise(3, 4 << 20));
    publish(&writer, "resumed", &other.bytes).await;
    let stale = writer
        .get(&url)
        .key(key::READER)
        .header("range", &range)
        .header("if-range", &etag)
        .answer()
        .await;
    check(
        &stale,
        Whole,
        false,
        &other,
        Some(stale.header("x-arkvory-artifact-id")),
        "stale",
    );
}

/// Bytes that somebody is reading stay, whatever is published at their path meanwhile.
#[tokio::test]
async fn a_running_download_keeps_its_revision() {
    let site = Site::new().await;
    let writer = site
        .standalone()
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "131072")
        .start()
        .await;
    let bytes = noise(4, 100 << 10);
    publish(&writer, "path", &bytes).await;
    let download = writer
        .get(&format!("{R}/raw/path"))
        .key(key::READER)
        .begin()
        .await
        .unwrap();
    publish(&writer, "path", b"next").await;
    assert!(download.bytes().await.unwrap() == bytes);
}

#[tokio::test]
async fn a_client_that_takes_one_byte_at_a_time_gets_them_all() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let bytes = noise(5, 50_000);
    publish(&writer, "slow", &bytes).await;
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head(
        "GET",
        &format!("{R}/raw/slow"),
        key::READER,
        "Connection: close\r\n",
    ))
    .await;
    let mut answer = Vec::new();
    while let Some(byte) = wire.byte().await {
        answer.push(byte);
    }
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(answer[body..] == bytes);
}

#[tokio::test]
async fn many_downloads_at_once_are_all_exact() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let content = Content::of(noise(6, 1 << 20));
    let length = content.bytes.len();
    let id = publish(&writer, "popular", &content.bytes).await;
    let url = format!("{R}/artifacts/{id}/content");
    let downloads = (0..40).map(async |n: usize| {
        let first = n * 20_011;
        let range = format!("bytes={first}-");
        let answer = writer.get(&url).key(key::READER).header("range", &range).answer().await;
        check(&answer, Part(first, length - 1), false, &content, None, &range);
    });
    futures_util::future::join_all(downloads).await;
}

/// docs/spec/http-api.md 2.6.2.
#[tokio::test]
async fn what_is_not_there_or_not_published_is_404() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer, "there", b"bytes").await;
    let unknown = "0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11";
    for url in [
        format!("{R}/artifacts/{unknown}/content"),
        format!("{R}/asset/content?path=nowhere"),
        format!("{R}/asset/content?path=ther"),
        format!("{R}/asset/content?path=There"),
        format!("{R}/raw/nowhere"),
        format!("{R}/raw/there/below"),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = writer
                .ask(method, &url)
                .key(key::READER)
                .header("range", "bytes=0-1")
                .answer()
                .await;
            assert_eq!(answer.status, 404, "{method} {url}");
        }
        writer
            .get(&url)
            .key(key::READER)
            .answer()
            .await
            .expect(404, "not_found", "");
    }
    // An artifact of another repository is not there, even for one who knows its id.
    let url = format!("/api/v1/repositories/attic/artifacts/{id}/content");
    writer
        .get(&url)
        .key(key::ATTIC)
        .answer()
        .await
        .expect(404, "not_found", "");
    for status in ["pending", "cancelled"] {
        let change = "UPDATE arkvory_uploads SET status = $1, published_at = NULL";
        sqlx::query(change)
            .bind(status)
            .execute(&mut site.db().await)
            .await
            .unwrap();
        for (url, _) in ways(&id, "there") {
            writer
                .get(&url)
                .key(key::READER)
                .answer()
                .await
                .expect(404, "not_found", "");
        }
    }
}

#[tokio::test]
async fn ids_and_options_of_content_routes_are_strict() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    publish(&writer, "there", b"bytes").await;
    for id in [
        "1",
        "0B4F7A52-6A0F-4C1E-9D3A-2F4F6F1F0A11",
        "0b4f7a526a0f4c1e9d3a2f4f6f1f0a11",
        "{0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11}",
        "0b4f7a52-6a0f-1c1e-9d3a-2f4f6f1f0a11",
        "0b4f7a52-6a0f-4c1e-cd3a-2f4f6f1f0a11",
        "00000000-0000-0000-0000-000000000000",
    ] {
        let url = format!("{R}/artifacts/{id}/content");
        writer
            .get(&url)
            .key(key::READER)
            .answer()
            .await
            .expect_invalid("id", "format");
    }
    let content = format!("{R}/asset/content");
    let ask = async |query: &str| writer.get(&format!("{content}{query}")).key(key::READER).answer().await;
    ask("").await.expect_invalid("path", "required");
    ask("?path=").await.expect_invalid("path", "format");
    ask("?path=a//b").await.expect_invalid("path", "format");
    ask("?path=..%2Fthere").await.expect_invalid("path", "format");
    let unknown = ask("?path=there&token=x").await;
    unknown.expect(400, "invalid_input", "validation");
    assert_eq!(unknown.refused().details[0].1, "unknown_field");
    assert!(
        !unknown.text().contains("token"),
        "values and names of the caller are not echoed"
    );
    for repository in ["Releases", "_x", "a.b", "a%2Fb"] {
        let url = format!("/api/v1/repositories/{repository}/raw/there");
        writer
            .get(&url)
            .key(key::READER)
            .answer()
            .await
            .expect_invalid("repository", "format");
    }
}

/// docs/spec/http-api.md 2.6.2 and 2.6.4: what can't be served whole fails before its headers.
#[tokio::test]
async fn a_file_that_is_missing_or_has_another_length_is_unavailable() {
    let site = Site::new().await;
    let launch = site
        .standalone()
        .allow("http.unavailable")
        .allow("download.file_missing");
    let writer = launch.allow("download.integrity_mismatch").start().await;
    let bytes = noise(7, 1000);
    for (name, damage) in [("shorter", Some(999)), ("longer", Some(1001)), ("missing", None)] {
        let id = publish(&writer, name, &[name.as_bytes(), &bytes].concat()).await;
        let blob = site.blob(&id);
        match damage {
            Some(length) => File::options()
                .write(true)
                .open(&blob)
                .unwrap()
                .set_len(length + name.len() as u64)
                .unwrap(),
            None => std::fs::remove_file(&blob).unwrap(),
        }
        for (url, _) in ways(&id, name) {
            writer
                .get(&url)
                .key(key::READER)
                .answer()
                .await
                .expect(503, "unavailable", "");
            assert_eq!(writer.ask("HEAD", &url).key(key::READER).answer().await.status, 503);
            let part = writer
                .get(&url)
                .key(key::READER)
                .header("range", "bytes=0-1")
                .answer()
                .await;
            part.expect(503, "unavailable", "");
        }
        // Reads report, and never repair: the artifact stays in the catalog.
        let artifact = writer
            .get(&format!("{R}/artifacts/{id}"))
            .key(key::READER)
            .answer()
            .await;
        assert_eq!(artifact.status, 200);
    }
}

/// docs/spec/storage.md 7.4.1: the collector's lock is waited for up to 100 ms.
#[tokio::test]
async fn a_file_that_is_being_reclaimed_is_busy() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let content = Content::of(noise(8, 1000));
    let id = publish(&writer, "reclaimed", &content.bytes).await;
    let url = format!("{R}/artifacts/{id}/content");
    let blob = File::open(site.blob(&id)).unwrap();
    flock(&blob, FlockOperation::NonBlockingLockExclusive).unwrap();
    writer.get(&url).key(key::READER).answer().await.expect(503, "busy", "");
    // HEAD and 304 take the lock too (docs/spec/http-api.md 2.6.3).
    assert_eq!(writer.ask("HEAD", &url).key(key::READER).answer().await.status, 503);
    let unchanged = writer
        .get(&url)
        .key(key::READER)
        .header("if-none-match", &content.etag)
        .answer()
        .await;
    unchanged.expect(503, "busy", "");
    // Given up in time, nobody notices.
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        flock(&blob, FlockOperation::Unlock).unwrap();
    };
    let (answer, ()) = tokio::join!(writer.get(&url).key(key::READER).answer(), releasing);
    assert_eq!(answer.status, 200);
}

/// docs/spec/storage.md 7.4: the lock is held as long as the answer takes, and no longer.
#[tokio::test]
async fn a_file_is_locked_while_it_is_sent() {
    let site = Site::new().await;
    let writer = site
        .standalone()
        .set("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "65536")
        .start()
        .await;
    let id = publish(&writer, "locked", &noise(9, 64 << 10)).await;
    let blob = File::open(site.blob(&id)).unwrap();
    let free = || {
        let got = flock(&blob, FlockOperation::NonBlockingLockExclusive).is_ok();
        if got {
            flock(&blob, FlockOperation::Unlock).unwrap();
        }
        got
    };
    let url = format!("{R}/artifacts/{id}/content");
    let download = writer.get(&url).key(key::READER).begin().await.unwrap();
    assert!(!free());
    assert_eq!(download.bytes().await.unwrap().len(), 64 << 10);
    eventually(Duration::from_secs(1), "the lock is free", async || free()).await;
    for (method, range) in [("HEAD", "bytes=0-"), ("GET", "bytes=9999999-")] {
        writer
            .ask(method, &url)
            .key(key::READER)
            .header("range", range)
            .answer()
            .await;
        eventually(Duration::from_secs(1), "the lock is free", async || free()).await;
    }
}

/// docs/spec/http-api.md 2.1: published files are never modified, so neither are answers by what else lies in the folder.
#[tokio::test]
async fn only_published_files_are_served() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let stray = "0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11";
    File::create(site.blob(stray)).unwrap().write_all(b"stray").unwrap();
    writer
        .get(&format!("{R}/artifacts/{stray}/content"))
        .key(key::READER)
        .answer()
        .await
        .expect(404, "not_found", "");
}

#[tokio::test]
async fn credentials_and_rights_come_before_the_file() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer, "there", b"bytes").await;
    for (url, _) in ways(&id, "there") {
        writer
            .get(&url)
            .answer()
            .await
            .expect(401, "unauthorized", "credential_missing");
        writer
            .get(&url)
            .key(key::UNKNOWN)
            .answer()
            .await
            .expect(401, "unauthorized", "credential_invalid");
        for foreign in [key::HEALTH, key::ATTIC] {
            writer
                .get(&url)
                .key(foreign)
                .answer()
                .await
                .expect(403, "forbidden", "permission_missing");
            let absent = url.replace("there", "nowhere");
            writer
                .get(&absent)
                .key(foreign)
                .answer()
                .await
                .expect(403, "forbidden", "permission_missing");
        }
    }
}
