//! Lists and look-ups (docs/spec/http-api.md 2.8), and who one is (2.9, 2.12).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::process::Process;
use crate::site::{Site, key, sha256};
use crate::talk::{Answer, escaped, escaped_path};

const R: &str = "/api/v1/repositories/releases";

async fn publish(writer: &Process, repository: &str, secret: &str, path: &str, bytes: &[u8]) -> String {
    let url = format!("/api/v1/repositories/{repository}/raw/{}", escaped_path(path));
    let put = writer.ask("PUT", &url).key(secret).body(bytes.to_vec()).answer().await;
    assert_eq!(put.status, 201, "{put:?}");
    put.json()["artifact"]["id"].as_str().unwrap().to_owned()
}

async fn get(process: &Process, url: &str) -> Answer {
    process.get(url).key(key::READER).answer().await
}

async fn json(process: &Process, url: &str) -> Value {
    let answer = get(process, url).await;
    assert_eq!(answer.status, 200, "{url}: {answer:?}");
    answer.json()
}

/// Text values of one field of all items.
fn field(page: &Value, name: &str) -> Vec<String> {
    page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item[name].as_str().unwrap().to_owned())
        .collect()
}

/// Walks all pages; checks that only the last one has no `next`, and that none is larger than `limit`.
async fn pages(process: &Process, url: &str, limit: usize, name: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = json(process, &format!("{url}limit={limit}{after}")).await;
        let items = field(&page, name);
        assert!(items.len() <= limit);
        let keys: BTreeSet<&str> = page.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["items", "next"]));
        // `next` is the last one's when the page is full.
        let next = page["next"].as_str().map(str::to_owned);
        assert_eq!(next.as_ref(), (items.len() == limit).then(|| items.last().unwrap()));
        all.extend(items);
        match next {
            Some(next) => after = format!("&after={}", escaped(&next)),
            None => return all,
        }
    }
}

/// A time of docs/spec/http-api.md 2.1.
fn instant(value: &Value) -> time::OffsetDateTime {
    let text = value.as_str().unwrap();
    assert!(
        text.len() == 24 && text.ends_with('Z') && text.as_bytes()[19] == b'.',
        "{text}"
    );
    time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).unwrap()
}

#[tokio::test]
async fn an_artifact_is_described() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer, "releases", key::WRITER, "deep/\u{fc}ber.txt", b"content").await;
    let artifact = json(&writer, &format!("{R}/artifacts/{id}")).await;
    let created = instant(&artifact["createdAt"]);
    assert_eq!(instant(&artifact["expiresAt"]) - created, time::Duration::days(7));
    let expected = json!({
        "id": id, "repository": "releases", "status": "available",
        "createdAt": artifact["createdAt"], "expiresAt": artifact["expiresAt"],
        "descriptor": {
            "name": "\u{fc}ber.txt", "size": "7", "sha256": sha256("content"), "labels": [], "metadata": {}
        },
    });
    assert_eq!(artifact, expected);
    let page = json(&writer, &format!("{R}/artifacts")).await;
    assert_eq!(page, json!({ "items": [expected], "next": null }));
    let asset = json(&writer, &format!("{R}/asset?path=deep/{}", escaped("\u{fc}ber.txt"))).await;
    assert_eq!(
        asset,
        json!({ "path": "deep/\u{fc}ber.txt", "revision": 1, "artifactId": id })
    );
}

#[tokio::test]
async fn artifacts_are_listed_in_pages_by_id() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let mut ids = BTreeSet::new();
    for n in 0..54_u8 {
        ids.insert(publish(&writer, "releases", key::WRITER, &format!("file-{n}"), &[n]).await);
    }
    publish(&writer, "attic", key::ATTIC, "foreign", b"foreign").await;
    let ids: Vec<String> = ids.into_iter().collect();
    let list = format!("{R}/artifacts?");
    for limit in [1, 7, 18, 54, 100] {
        assert_eq!(pages(&writer, &list, limit, "id").await, ids, "limit {limit}");
    }
    // 50 without a word.
    let page = json(&writer, &list).await;
    assert_eq!(field(&page, "id"), ids[..50]);
    assert_eq!(page["next"], *ids[49]);
    // `after` need not be one of them.
    let after = json(&writer, &format!("{list}after=00000000-0000-4000-8000-000000000000")).await;
    assert_eq!(field(&after, "id").len(), 50);
    let after = json(&writer, &format!("{list}after=ffffffff-ffff-4fff-bfff-ffffffffffff")).await;
    assert_eq!(after, json!({ "items": [], "next": null }));
    // Only what is available.
    let hide = "UPDATE arkvory_uploads SET status = 'cancelled', published_at = NULL WHERE id::text = $1";
    sqlx::query(hide)
        .bind(&ids[3])
        .execute(&mut site.db().await)
        .await
        .unwrap();
    assert_eq!(pages(&writer, &list, 10, "id").await.len(), 53);
    get(&writer, &format!("{R}/artifacts/{}", ids[3]))
        .await
        .expect(404, "not_found", "");
}

#[tokio::test]
async fn limits_are_whole_numbers_from_1_to_100() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    for list in ["artifacts", "assets/page"] {
        for (limit, problem) in [
            ("0", "range"),
            ("101", "range"),
            ("1000", "range"),
            ("4294967296", "format"),
            ("01", "format"),
            ("%2B1", "format"),
            ("-1", "format"),
            ("1.0", "format"),
            ("1e1", "format"),
            ("%201", "format"),
            ("", "format"),
            ("ten", "format"),
        ] {
            let answer = get(&writer, &format!("{R}/{list}?limit={limit}")).await;
            answer.expect(400, "invalid_input", "validation");
            let details = answer.refused().details;
            assert_eq!(details[0].0, "limit", "{list} {limit}");
            // A number too large for the server is a matter of taste.
            assert!(
                details[0].1 == problem || limit.len() > 4,
                "{list} {limit}: {details:?}"
            );
        }
        for limit in ["1", "100"] {
            assert_eq!(get(&writer, &format!("{R}/{list}?limit={limit}")).await.status, 200);
        }
    }
}

#[tokio::test]
async fn malformed_values_are_400_and_absent_objects_404() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    publish(&writer, "releases", key::WRITER, "there", b"there").await;
    for (url, field, problem) in [
        ("artifacts/x", "id", "format"),
        ("artifacts/0B4F7A52-6A0F-4C1E-9D3A-2F4F6F1F0A11", "id", "format"),
        ("artifacts?after=x", "after", "format"),
        (
            "artifacts?after=0b4f7a52-6a0f-1c1e-9d3a-2f4f6f1f0a11",
            "after",
            "format",
        ),
        ("asset", "path", "required"),
        ("asset?path=a//b", "path", "format"),
        ("asset?path=%00", "path", "format"),
        ("asset/history", "path", "required"),
        ("asset/history?path=a%5Cb", "path", "format"),
        ("asset/history?path=there&before=0", "before", "format"),
        ("asset/history?path=there&before=01", "before", "format"),
        ("asset/history?path=there&before=x", "before", "format"),
        ("asset/revision?path=there", "revision", "required"),
        ("asset/revision?revision=1", "path", "required"),
        ("asset/revision?path=there&revision=0", "revision", "format"),
        ("asset/revision?path=there&revision=-1", "revision", "format"),
        ("asset/revision?path=there&revision=%2B1", "revision", "format"),
        (
            "asset/revision?path=there&revision=99999999999999999999",
            "revision",
            "format",
        ),
        ("assets/page?after=a//b", "after", "format"),
        ("assets?prefix=%00", "prefix", "length"),
    ] {
        let answer = get(&writer, &format!("{R}/{url}")).await;
        answer.expect(400, "invalid_input", "validation");
        let details = answer.refused().details;
        assert_eq!(details.len(), 1, "{url}");
        assert_eq!(details[0].0, field, "{url}");
        // Which word describes a value that is out of bounds is left open.
        assert!(details[0].1 == problem || problem != "required", "{url}: {details:?}");
    }
    for url in [
        "artifacts/0b4f7a52-6a0f-4c1e-9d3a-2f4f6f1f0a11",
        "asset?path=nowhere",
        "asset/history?path=nowhere",
        "asset/revision?path=nowhere&revision=1",
        "asset/revision?path=there&revision=2",
        "asset/revision?path=there&revision=2147483647",
    ] {
        get(&writer, &format!("{R}/{url}")).await.expect(404, "not_found", "");
    }
}

/// docs/spec/http-api.md 2.1: unknown options are refused on some routes and passed over on the others.
#[tokio::test]
async fn unknown_options_are_refused_where_the_specification_says() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer, "releases", key::WRITER, "there", b"there").await;
    for url in ["asset/content?path=there", "assets/page?prefix=t"] {
        assert_eq!(get(&writer, &format!("{R}/{url}")).await.status, 200, "{url}");
        let answer = get(&writer, &format!("{R}/{url}&unheard=of")).await;
        answer.expect(400, "invalid_input", "validation");
        assert_eq!(answer.refused().details[0].1, "unknown_field", "{url}");
        assert!(
            !answer.text().contains("unheard"),
            "names and values of the caller are not echoed"
        );
    }
    for url in [
        "artifacts?limit=5",
        "asset?path=there",
        "asset/history?path=there",
        "asset/revision?path=there&revision=1",
        "assets?prefix=t",
        &format!("artifacts/{id}?"),
        &format!("artifacts/{id}/content?"),
        "raw/there?",
    ] {
        assert_eq!(
            get(&writer, &format!("{R}/{url}&unheard=of")).await.status,
            200,
            "{url}"
        );
    }
    for url in [
        "/api/v1/auth/me?x=y",
        "/api/v1/capabilities?x=y",
        "/health/ready?x=y",
        "/health/status?x=y",
    ] {
        assert_eq!(get(&writer, url).await.status, 200, "{url}");
    }
}

/// docs/spec/http-api.md 2.8: a literal prefix, in the byte order of UTF-8 (which is not that of UTF-16).
#[tokio::test]
async fn paths_are_listed_by_literal_prefix_in_byte_order() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let mut paths = vec![
        "A",
        "Z",
        "a",
        "a/b",
        "a/b/c",
        "a-b",
        "a.b",
        "a_b",
        "a%b",
        "ab",
        "aXb",
        "\u{e4}",
        "\u{fc}",
        "\u{fc}/x",
        "\u{fc}ber",
        "u\u{308}",
        "\u{d7ff}",
        "\u{d7ff}x",
        "\u{e000}",
        "\u{ffff}",
        "\u{1f600}",
        "\u{10ffff}",
        "\u{10ffff}z",
        "~",
        " ",
    ];
    for path in &paths {
        publish(&writer, "releases", key::WRITER, path, path.as_bytes()).await;
    }
    publish(&writer, "attic", key::ATTIC, "a/foreign", b"foreign").await;
    paths.sort_unstable();
    for prefix in [
        "",
        "a",
        "a/",
        "a/b",
        "a_",
        "a%",
        "A",
        "\u{fc}",
        "\u{fc}b",
        "\u{d7ff}",
        "\u{10ffff}",
        "\u{1f600}",
        "u",
        "nothing",
        "a/b/c/d",
        "*",
    ] {
        let expected: Vec<&str> = paths.iter().copied().filter(|path| path.starts_with(prefix)).collect();
        let list = json(&writer, &format!("{R}/assets?prefix={}", escaped(prefix))).await;
        assert_eq!(field(&list, "path"), expected, "assets, prefix {prefix:?}");
        for limit in [1, 3, 100] {
            let url = format!("{R}/assets/page?prefix={}&", escaped(prefix));
            assert_eq!(
                pages(&writer, &url, limit, "path").await,
                expected,
                "page, prefix {prefix:?}, limit {limit}"
            );
        }
    }
    let all = json(&writer, &format!("{R}/assets")).await;
    assert_eq!(field(&all, "path"), paths);
    // `after` goes with any prefix, and need not be one of the paths.
    let page = json(&writer, &format!("{R}/assets/page?prefix=a&after=a/b/a")).await;
    let expected: Vec<&str> = paths
        .iter()
        .copied()
        .filter(|path| path.starts_with('a') && *path > "a/b/a")
        .collect();
    assert_eq!(field(&page, "path"), expected);
    let page = json(&writer, &format!("{R}/assets/page?prefix=a&after=b")).await;
    assert_eq!(page, json!({ "items": [], "next": null }));
    let page = json(
        &writer,
        &format!("{R}/assets/page?prefix={}&after=b", escaped("\u{fc}")),
    )
    .await;
    assert_eq!(field(&page, "path").len(), 3);
}

#[tokio::test]
async fn long_lists_are_complete() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let paths: Vec<String> = (0..250).map(|n| format!("\u{65e5}/file-{n:03}")).collect();
    for chunk in paths.chunks(25) {
        let puts = chunk
            .iter()
            .map(|path| publish(&writer, "releases", key::WRITER, path, path.as_bytes()));
        futures_util::future::join_all(puts).await;
    }
    // Paths whose first 512 characters are the same.
    let mut twins: Vec<String> = (0..7).map(|n| format!("{}/{n}", "\u{fc}".repeat(600))).collect();
    for path in &twins {
        publish(&writer, "releases", key::WRITER, path, path.as_bytes()).await;
    }
    twins.sort_unstable();

    let url = format!("{R}/assets/page?prefix={}&", escaped("\u{65e5}/"));
    for limit in [50, 99, 100] {
        assert_eq!(pages(&writer, &url, limit, "path").await, paths, "limit {limit}");
    }
    assert_eq!(field(&json(&writer, &url).await, "path").len(), 50, "50 without a word");
    let url = format!("{R}/assets/page?prefix={}&", escaped(&"\u{fc}".repeat(590)));
    for limit in [1, 2, 7] {
        assert_eq!(pages(&writer, &url, limit, "path").await, twins, "limit {limit}");
    }
    assert_eq!(field(&json(&writer, &format!("{R}/assets")).await, "path").len(), 257);

    // 1000 at most, all at once.
    let fill = "INSERT INTO arkvory_assets (repository, path, path_sha256, revision, artifact_id)
                SELECT 'releases', 'fill/' || n, sha256(convert_to('fill/' || n, 'UTF8')), 1,
                       (SELECT artifact_id FROM arkvory_assets LIMIT 1) FROM generate_series(1, 1200) n";
    sqlx::query(fill).execute(&mut site.db().await).await.unwrap();
    assert_eq!(
        field(&json(&writer, &format!("{R}/assets?prefix=fill/")).await, "path").len(),
        1000
    );
}

#[tokio::test]
async fn history_is_newest_first_in_pages_of_50() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let mut ids = Vec::new();
    for n in 1..=53_u8 {
        ids.push(publish(&writer, "releases", key::WRITER, "changing", &[n]).await);
    }
    let url = format!("{R}/asset/history?path=changing");
    let first = json(&writer, &url).await;
    let revisions = |page: &Value| -> Vec<i64> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["revision"].as_i64().unwrap())
            .collect()
    };
    assert_eq!(revisions(&first), (4..=53).rev().collect::<Vec<_>>());
    let second = json(&writer, &format!("{url}&before=4")).await;
    assert_eq!((revisions(&second), &second["next"]), (vec![3, 2, 1], &Value::Null));
    assert_eq!(revisions(&json(&writer, &format!("{url}&before=2")).await), [1]);
    assert_eq!(revisions(&json(&writer, &format!("{url}&before=1")).await), [0; 0]);
    for (item, id) in first["items"].as_array().unwrap().iter().rev().zip(&ids[3..]) {
        assert_eq!(item["artifactId"], **id);
        assert_eq!((&item["path"], &item["createdBy"]), (&json!("changing"), &json!("ci")));
        instant(&item["createdAt"]);
    }
    for n in [1, 17, 53] {
        let revision = json(&writer, &format!("{R}/asset/revision?path=changing&revision={n}")).await;
        assert_eq!(
            (&revision["revision"], &revision["artifactId"]),
            (&json!(n), &json!(ids[n - 1]))
        );
    }
    let asset = json(&writer, &format!("{R}/asset?path=changing")).await;
    assert_eq!(
        asset,
        json!({ "path": "changing", "revision": 53, "artifactId": ids[52] })
    );
}

#[tokio::test]
async fn lists_need_the_right_to_read() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    let id = publish(&writer, "releases", key::WRITER, "there", b"there").await;
    for url in [
        "artifacts",
        &format!("artifacts/{id}"),
        "asset?path=there",
        "asset/history?path=there",
        "asset/revision?path=there&revision=1",
        "assets",
        "assets/page",
    ] {
        let url = format!("{R}/{url}");
        writer
            .get(&url)
            .answer()
            .await
            .expect(401, "unauthorized", "credential_missing");
        for foreign in [key::HEALTH, key::ATTIC] {
            writer
                .get(&url)
                .key(foreign)
                .answer()
                .await
                .expect(403, "forbidden", "permission_missing");
        }
        assert_eq!(writer.get(&url).key(key::WRITER).answer().await.status, 200);
    }
}

/// docs/spec/http-api.md 2.9 and 2.12.
#[tokio::test]
async fn one_can_ask_who_one_is_and_what_there_is() {
    let site = Site::new().await;
    let writer = site.writer().fast().start().await;
    let me = async |secret: &str| writer.get("/api/v1/auth/me").key(secret).answer().await.json();
    let grants = |permissions: Value| json!([{ "repository": "releases", "permissions": permissions }]);
    assert_eq!(
        me(key::WRITER).await,
        json!({ "id": "ci", "administrator": true, "credential": "file-key", "grants": grants(json!(["read", "write"])) })
    );
    assert_eq!(
        me(key::READER).await,
        json!({ "id": "team", "administrator": false, "credential": "file-key", "grants": grants(json!(["read"])) })
    );
    assert_eq!(
        me(key::HEALTH).await,
        json!({ "id": "deployment-health", "administrator": false, "credential": "file-key", "grants": [] })
    );
    assert_eq!(me(key::TWIN).await, me(key::OTHER_TWIN).await);

    let reader = site.reader(1).fast().start().await;
    for (process, role) in [(&writer, "api"), (&reader, "reader")] {
        let capabilities = json(process, "/api/v1/capabilities").await;
        assert_eq!(capabilities["apiVersions"], json!(["v1"]));
        assert_eq!(capabilities["gatewayRole"], role);
        let features = capabilities["features"].as_object().unwrap();
        for name in [
            "managedServiceKeys",
            "delegatedServiceAdministration",
            "assetPagination",
            "repositoryDiscovery",
            "operationDiscovery",
            "apiSurfaces",
            "repositoryPermissions",
            "artifactDeletion",
            "retentionPreview",
            "onlineGarbageCollection",
            "selfRegistration",
        ] {
            assert!(features[name].is_boolean(), "{name}");
        }
        assert_eq!(features["assetPagination"], true);
        assert_eq!(capabilities["limits"]["maxObjectBytes"], "10737418240000");
        assert_eq!(capabilities["limits"]["maxPageSize"], 100);
    }
}
