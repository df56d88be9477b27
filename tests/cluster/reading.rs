//! What the writer published comes out of every process, and nothing can be changed but through the writer.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use arkvory::model::digest::Digest;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::RANGE;

use crate::docker::{USERS, docker, run_as};
use crate::http::{Answer, Http, REPOSITORY, noise, raw};
use crate::node::Node;
use crate::patience::eventually;
use crate::stack::{MIB, Policy, Slot, Stack};

const PATH: &str = "app/1.0/app.tar.gz";

/// A stack of four processes with one file in it.
struct Published {
    stack: Stack,
    content: Bytes,
    artifact: String,
    tag: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_goes_in_through_the_writer_and_comes_out_of_every_process() -> anyhow::Result<()> {
    let stack = Stack::start(Policy::USUAL, &[Slot::Auto; 3]).await?;
    let published = publish(stack).await?;
    // What is published is there for all at once (docs/spec/roles.md 1.1.3).
    every_process_serves_it(&published).await?;
    haproxy_spreads_reads_over_all(&published).await?;
    haproxy_sends_the_rest_to_the_writer(&published).await?;
    a_range_is_resumed_on_another_process(&published).await?;
    readers_change_nothing(&published).await?;
    other_repositories_are_closed(&published).await?;
    readiness_names_the_share(&published).await?;
    containers_have_no_rights(&published).await
}

async fn publish(stack: Stack) -> anyhow::Result<Published> {
    let content = noise(1, 3 * 1024 * 1024 + 17);
    let answer = stack.http().put(&stack.proxy.url(&raw(PATH)), content.clone()).await?;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    assert_eq!(answer.slot()?, 0, "changes go to the writer");
    let body = answer.json()?;
    let digest = Digest::of(&content).to_string();
    assert_eq!(body["artifact"]["sha256"], digest.as_str());
    assert_eq!(body["artifact"]["size"], content.len().to_string());
    let artifact = body["artifact"]["id"].as_str().context("no id")?.to_owned();
    Ok(Published {
        stack,
        content,
        artifact,
        tag: format!("\"sha256:{digest}\""),
    })
}

/// The three routes to the bytes (docs/spec/http-api.md 2.6).
fn routes(published: &Published) -> [String; 3] {
    let base = format!("/api/v1/repositories/{REPOSITORY}");
    [
        raw(PATH),
        format!("{base}/artifacts/{}/content", published.artifact),
        format!("{base}/asset/content?path={PATH}"),
    ]
}

async fn every_process_serves_it(published: &Published) -> anyhow::Result<()> {
    let processes = published.stack.by_slot().await?;
    let slots: Vec<u8> = processes.iter().map(|(slot, _)| *slot).collect();
    assert_eq!(
        slots,
        [0, 1, 2, 3],
        "`auto` takes the lowest free slots, the writer has 0"
    );
    for (slot, node) in processes {
        for route in routes(published) {
            let answer = published.stack.http().get(&node.url(&route)).await?;
            assert_eq!(answer.status, 200, "slot {slot} {route}");
            assert!(answer.body == published.content, "slot {slot} {route}: other bytes");
            assert_eq!(answer.slot()?, slot, "{route}");
            assert_eq!(answer.header("etag"), published.tag, "slot {slot} {route}");
            assert_eq!(answer.header("accept-ranges"), "bytes", "slot {slot} {route}");
        }
    }
    Ok(())
}

async fn haproxy_spreads_reads_over_all(published: &Published) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    let url = published.stack.proxy.url(&raw(PATH));
    // A reader that has just come up gets its share step by step ("slowstart").
    eventually(
        "all four processes answer through HAProxy",
        Duration::from_secs(15),
        async || {
            let answer = published.stack.http().get(&url).await?;
            ensure!(
                answer.status == 200 && answer.body == published.content,
                "{} through HAProxy",
                answer.status
            );
            seen.insert(answer.slot()?);
            Ok((seen.len() == 4).then_some(()))
        },
    )
    .await?;
    assert_eq!(seen, BTreeSet::from([0, 1, 2, 3]));
    Ok(())
}

/// docs/spec/haproxy.md 10.1.
async fn haproxy_sends_the_rest_to_the_writer(published: &Published) -> anyhow::Result<()> {
    let [raw_path, artifact, _] = routes(published);
    let listing = format!("/api/v1/repositories/{REPOSITORY}/artifacts");
    let about = artifact.trim_end_matches("/content").to_owned();
    for path in ["/api/v1/auth/me".to_owned(), "/health/ready".to_owned(), listing, about] {
        for _ in 0..6 {
            let answer = published.stack.http().get(&published.stack.proxy.url(&path)).await?;
            assert_eq!((answer.status, answer.slot()?), (200, 0), "{path}");
        }
    }
    // The same bytes again are no change (docs/spec/http-api.md 2.7).
    let again = published
        .stack
        .http()
        .put(&published.stack.proxy.url(&raw_path), published.content.clone())
        .await?;
    assert_eq!((again.status, again.slot()?), (200, 0));
    Ok(())
}

/// docs/spec/leases.md 5.7.6: a client that loses one process goes on with another.
async fn a_range_is_resumed_on_another_process(published: &Published) -> anyhow::Result<()> {
    let http = published.stack.http();
    let processes = published.stack.by_slot().await?;
    for (here, there) in [(1, 2), (3, 0), (0, 1)] {
        let mut first = http.begin(&processes[here].1.url(&raw(PATH))).await?;
        first.read_to(MIB.try_into()?).await?;
        let tag = first.header("etag").to_owned();
        let mut received = std::mem::take(&mut first.received);
        drop(first);
        let mut rest = http
            .resume(&processes[there].1.url(&raw(PATH)), received.len(), &tag)
            .await?;
        assert_eq!((rest.status(), usize::from(rest.slot()?)), (206, there));
        assert!(rest.read_to_end().await, "the rest broke off");
        received.extend_from_slice(&rest.received);
        assert!(received == published.content, "{here} then {there}: other bytes");
    }
    // Exactly the bytes that were asked for, from each (docs/spec/cases.md 9.3.3).
    for (slot, node) in &processes {
        let url = node.url(&routes(published)[2]);
        let answer = Answer::of(http.request(Method::GET, &url).header(RANGE, "bytes=13-42")).await?;
        assert_eq!(answer.status, 206, "slot {slot}");
        assert_eq!(answer.body, published.content.slice(13..43), "slot {slot}");
    }
    Ok(())
}

/// docs/spec/http-api.md 2.2.12 and docs/spec/cases.md 9.3.4, 9.3.5.
async fn readers_change_nothing(published: &Published) -> anyhow::Result<()> {
    let keyless = Http::without_key()?;
    let [by_path, content, _] = routes(published);
    let artifact = content.trim_end_matches("/content");
    for reader in &published.stack.readers {
        let changes = [
            (Method::PUT, by_path.as_str()),
            (Method::PUT, &raw("something/new")),
            (Method::DELETE, by_path.as_str()),
            (Method::DELETE, artifact),
            (Method::POST, content.as_str()),
        ];
        for (method, path) in changes {
            let answer = published.stack.http().send(method.clone(), &reader.url(path)).await?;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.header("allow"), "GET, HEAD", "{method} {path}");
            assert_eq!(answer.error()?, "read_only", "{method} {path}");
        }
        let refused = keyless.put(&reader.url(&raw(PATH)), &b"x"[..]).await?;
        assert_eq!(
            (refused.status, refused.error()?.as_str()),
            (401, "unauthorized/credential_missing")
        );
        let refused = keyless.get(&reader.url(&raw(PATH))).await?;
        assert_eq!(
            (refused.status, refused.error()?.as_str()),
            (401, "unauthorized/credential_missing")
        );
    }
    let absent = published
        .stack
        .http()
        .get(&published.stack.proxy.url(&raw("something/new")))
        .await?;
    assert_eq!(absent.status, 404, "a refused change left something behind");
    Ok(())
}

async fn other_repositories_are_closed(published: &Published) -> anyhow::Result<()> {
    let proxy = &published.stack.proxy;
    let routes = routes(published).map(|route| route.replace(REPOSITORY, "foreign"));
    for route in routes {
        let direct = published.stack.processes().into_iter().map(|node| node.url(&route));
        for url in direct.chain([proxy.url(&route)]) {
            let answer = published.stack.http().get(&url).await?;
            assert_eq!(
                (answer.status, answer.error()?.as_str()),
                (403, "forbidden/permission_missing"),
                "{url}"
            );
        }
    }
    let put = published
        .stack
        .http()
        .put(&proxy.url(&raw(PATH).replace(REPOSITORY, "foreign")), &b"x"[..])
        .await?;
    assert_eq!(
        (put.status, put.error()?.as_str()),
        (403, "forbidden/permission_missing")
    );
    Ok(())
}

/// docs/spec/health.md 8.1 and docs/spec/cases.md 9.3.2.
async fn readiness_names_the_share(published: &Published) -> anyhow::Result<()> {
    for (slot, node) in published.stack.by_slot().await? {
        let body = node.readiness(published.stack.http()).await?;
        let reader = slot != 0;
        assert_eq!(body["role"], if reader { "reader" } else { "api" }, "{body}");
        assert_eq!(body["writable"], !reader, "{body}");
        assert_eq!(body["sharedDownloads"]["slot"], slot, "{body}");
        assert_eq!(body["sharedDownloads"]["slots"], 4, "{body}");
        assert_eq!(body["sharedDownloads"]["active"], true, "{body}");
        let bandwidth = &body["transfers"]["downloads"]["bandwidth"];
        assert_eq!(bandwidth["bytesPerSecond"], Policy::USUAL.share(), "{body}");
        assert_eq!(bandwidth["burstBytes"], Policy::USUAL.burst(), "{body}");
    }
    Ok(())
}

/// docs/spec/roles.md 1.2.1 and docs/spec/containers.md 11.3.
async fn containers_have_no_rights(published: &Published) -> anyhow::Result<()> {
    let [ours, root] = USERS;
    for reader in &published.stack.readers {
        let (done, text) = run_as(ours, reader.id(), &["sh", "-c", "echo x > /data/blobs/x"]).await?;
        assert!(
            !done && text.contains("Read-only file system"),
            "the files can be changed: {text}"
        );
        for user in USERS {
            let (done, text) = run_as(user, reader.id(), &["sh", "-c", "cat /secrets/*/*.key"]).await?;
            assert!(
                !done && text.contains("No such file"),
                "a reader sees the owner's key: {text}"
            );
        }
    }
    for node in published.stack.processes() {
        let (done, text) = run_as(root, node.id(), &["sh", "-c", "echo x > /usr/local/bin/x"]).await?;
        assert!(
            !done && text.contains("Read-only file system"),
            "the image can be changed: {text}"
        );
        let users = users(node).await?;
        assert_eq!(
            users,
            BTreeSet::from(["10001".to_owned()]),
            "processes run as one user without rights"
        );
    }
    Ok(())
}

/// The numbers of the users whose processes run in a container, as the host sees them.
async fn users(node: &Node) -> anyhow::Result<BTreeSet<String>> {
    use testcontainers::bollard::query_parameters::TopOptionsBuilder;
    // Docker wants to see the process numbers, too.
    let options = TopOptionsBuilder::new().ps_args("-eo uid,pid").build();
    let table = docker().await?.top_processes(node.id(), Some(options)).await?.processes;
    Ok(table
        .unwrap_or_default()
        .into_iter()
        .filter_map(|row| row.into_iter().next())
        .collect())
}
