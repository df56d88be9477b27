//! Processes that may not start, and say why (docs/spec/leases.md 5.6).

use std::time::Duration;

use anyhow::{bail, ensure};
use serde_json::Value;

use crate::blueprint::Service;
use crate::http::{Http, noise, raw};
use crate::stack::{Ground, Policy, Slot};

/// Longer than a process waits for a slot (docs/spec/leases.md 5.3.8).
const REFUSAL: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_fit_stops_and_says_why() -> anyhow::Result<()> {
    let ground = Ground::lay(Policy::USUAL).await?;
    before_the_writer_there_is_nothing(&ground).await?;
    before_the_policy_there_is_no_slot(&ground).await?;

    let writer = ground.start("writer", &ground.writer()?).await?;
    writer.ready().await?;
    let reader = ground.start("reader", &ground.reader(Slot::Fixed(1))?).await?;
    reader.ready().await?;
    let content = noise(5, 1000);
    assert_eq!(
        ground.http.put(&writer.url(&raw("x")), content.clone()).await?.status,
        201
    );

    // One after the other: each holds the section of acquisitions for a moment.
    let refused = refusal(&ground, "reader", &ground.reader(Slot::Fixed(1))?, "busy").await?;
    assert!(reason(&refused).contains("slot"), "{refused}");
    let mut other = ground.reader(Slot::Fixed(2))?;
    other.set(
        "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND",
        Some(&(2 * Policy::USUAL.bytes_per_second).to_string()),
    );
    refusal(&ground, "reader", &other, "conflict").await?;
    let mut other = ground.reader(Slot::Fixed(2))?;
    other.set("ARKVORY_GATEWAY_SLOTS", Some("5"));
    refusal(&ground, "reader", &other, "conflict").await?;
    refusal(&ground, "writer", &ground.writer()?, "busy").await?;
    refusal(&ground, "writer", &standalone(&ground)?, "busy").await?;

    // Nobody was disturbed by all this, and nothing stays locked: the slot that was refused so often is free.
    for (node, slot) in [(&writer, 0), (&reader, 1)] {
        let answer = ground.http.get(&node.url(&raw("x"))).await?;
        assert_eq!((answer.status, answer.slot()?), (200, slot));
        assert_eq!(answer.body, content);
    }
    let second = ground.start("reader", &ground.reader(Slot::Fixed(2))?).await?;
    second.ready().await?;

    // The policy outlives all processes, and with it the refusal of a writer without limits.
    for node in [&second, &reader, &writer] {
        node.kill().await?;
    }
    refusal(&ground, "writer", &standalone(&ground)?, "conflict").await?;
    Ok(())
}

/// docs/spec/leases.md 5.6.2 and docs/spec/cases.md 9.2.5.
async fn before_the_writer_there_is_nothing(ground: &Ground) -> anyhow::Result<()> {
    for slot in [Slot::Fixed(1), Slot::Auto] {
        refusal(ground, "reader", &ground.reader(slot)?, "unavailable").await?;
    }
    assert_eq!(ground.files().await?, "", "a reader made something");
    Ok(())
}

/// docs/spec/leases.md 5.3.4: a standalone writer makes the folder but no policy.
async fn before_the_policy_there_is_no_slot(ground: &Ground) -> anyhow::Result<()> {
    let standalone = ground.start("writer", &standalone(ground)?).await?;
    standalone.ready().await?;
    let answer = Http::without_key()?.get(&standalone.url("/health/status")).await?;
    assert_eq!(
        answer.header("x-arkvory-slot"),
        "",
        "standalone has no slot (docs/spec/http-api.md 2.1)"
    );
    // The two profiles never mix.
    refusal(ground, "reader", &ground.reader(Slot::Auto)?, "busy").await?;
    standalone.stop().await?;
    assert_eq!(standalone.exit_code(Duration::from_secs(1)).await?, 0);
    for slot in [Slot::Fixed(1), Slot::Auto] {
        let refused = refusal(ground, "reader", &ground.reader(slot)?, "conflict").await?;
        assert!(reason(&refused).contains("policy"), "{refused}");
    }
    Ok(())
}

/// What the operator reads.
fn reason(refused: &Value) -> &str {
    refused["reason"].as_str().unwrap_or_default()
}

/// A writer that shares with nobody.
fn standalone(ground: &Ground) -> anyhow::Result<Service> {
    let mut service = ground.writer()?;
    let shared = ["SLOT", "SLOTS"].map(|name| format!("ARKVORY_GATEWAY_{name}"));
    let rates = ["", "_PER_PRINCIPAL"].map(|end| format!("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND{end}"));
    for name in shared.iter().chain(&rates) {
        service.set(name, None);
    }
    Ok(service)
}

/// Starts a process that must refuse with a code, and gives the line that it leaves (docs/spec/environment.md 4.0.2).
async fn refusal(ground: &Ground, name: &str, service: &Service, code: &str) -> anyhow::Result<Value> {
    let node = ground.start(name, service).await?;
    let ended = node.exit_code(REFUSAL).await?;
    let Some(line) = node.logged("startup.failed").await? else {
        bail!(
            "{name} ended with {ended} and without startup.failed:\n{}",
            node.text().await?
        );
    };
    ensure!(ended == 1, "{name} ended with {ended}: {line}");
    ensure!(
        line.to_string().contains(code),
        "{name} was refused, but not as {code}: {line}"
    );
    ensure!(
        node.logged("api.listening").await?.is_none(),
        "{name} listened before it was refused"
    );
    Ok(line)
}
