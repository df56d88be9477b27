//! Readers that die, come back, and are told to stop, while downloads run.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use arkvory::model::digest::Digest;
use bytes::Bytes;
use tokio::time::Instant;

use crate::http::{Download, noise, raw};
use crate::load::Load;
use crate::patience::{eventually, within};
use crate::stack::{MIB, Policy, Slot, Stack};

const LARGE: &str = "large";
const SMALL: &str = "small";

#[tokio::test(flavor = "multi_thread")]
async fn downloads_go_on_when_readers_do_not() -> anyhow::Result<()> {
    let mut stack = Stack::start(Policy::USUAL, &[Slot::Fixed(1), Slot::Fixed(2), Slot::Fixed(3)]).await?;
    // Four seconds' worth of one process.
    let large = noise(2, usize::try_from(4 * Policy::USUAL.share())?);
    let small = noise(3, 100_000);
    stack.publish(LARGE, &large).await?;
    stack.publish(SMALL, &small).await?;

    let killed = a_killed_reader_breaks_a_download_that_another_finishes(&stack, &large, &small).await?;
    a_restarted_reader_takes_its_slot_back(&mut stack, killed).await?;
    a_stopped_reader_finishes_what_it_has_begun(&stack, &large, &small).await
}

/// A download through HAProxy that a reader answers; which one, and the download.
async fn begin_on_a_reader(stack: &Stack) -> anyhow::Result<(usize, Download)> {
    let url = stack.proxy.url(&raw(LARGE));
    eventually("a reader answers", Duration::from_secs(20), async || {
        let download = stack.http().begin(&url).await?;
        let slot = usize::from(download.slot()?);
        Ok((slot > 0).then(|| (slot - 1, download)))
    })
    .await
}

/// A reader that was killed.
struct Killed {
    reader: usize,
    at: Instant,
    generation: f64,
}

/// docs/spec/cases.md 9.3.6, docs/spec/haproxy.md 10.5.3.
async fn a_killed_reader_breaks_a_download_that_another_finishes(
    stack: &Stack,
    large: &Bytes,
    small: &Bytes,
) -> anyhow::Result<Killed> {
    let (reader, mut download) = begin_on_a_reader(stack).await?;
    let node = &stack.readers[reader];
    let generation = node.metric(stack.http(), "arkvory_gateway_generation").await?;
    let tag = download.header("etag").to_owned();
    download.read_to(large.len() / 4).await?;

    // New requests come all the time, also in the moments before HAProxy can know.
    let load = Load::start(stack.http(), &stack.proxy.url(&raw(SMALL)), small, 8);
    node.kill().await?;
    let at = Instant::now();
    assert!(
        !download.read_to_end().await,
        "the body seems whole although its sender is dead"
    );
    let mut received = download.received;
    ensure!(received.len() < large.len(), "everything had been sent before the end");

    let mut rest = stack
        .http()
        .resume(&stack.proxy.url(&raw(LARGE)), received.len(), &tag)
        .await?;
    assert_eq!(rest.status(), 206, "the file is the same on every process");
    assert_ne!(usize::from(rest.slot()?), reader + 1, "the dead reader answered");
    assert!(rest.read_to_end().await, "the rest broke off");
    received.extend_from_slice(&rest.received);
    assert!(received == *large, "other bytes after the resumption");
    assert_eq!(format!("\"sha256:{}\"", Digest::of(&received)), tag);

    stack.proxy.sees(3).await?;
    assert!(
        load.whole() > 20,
        "hardly any other request in the meantime: {}",
        load.whole()
    );
    load.end()
        .await
        .context("a request that began after the death of a reader failed")?;
    Ok(Killed { reader, at, generation })
}

/// docs/spec/leases.md 5.3.8, 5.3.10 and 5.4.9.
async fn a_restarted_reader_takes_its_slot_back(stack: &mut Stack, killed: Killed) -> anyhow::Result<()> {
    let Killed { reader, at, generation } = killed;
    stack.readers[reader].start_again().await?;
    let node = &stack.readers[reader];
    node.ready().await?;
    let waited = at.elapsed();
    // A reservation lasts 10 s from the last renewal, and that was at most about 2 s before the end.
    assert!(
        waited > Duration::from_secs(7),
        "the slot was free again after {waited:?}"
    );
    assert!(
        waited < Duration::from_secs(20),
        "the slot was free again only after {waited:?}"
    );
    let body = node.readiness(stack.http()).await?;
    assert_eq!(body["sharedDownloads"]["slot"], reader + 1, "{body}");
    let now = node.metric(stack.http(), "arkvory_gateway_generation").await?;
    assert!(
        now > generation,
        "the slot has a new owner, but generation {now} after {generation}"
    );
    stack.proxy.sees(4).await
}

/// docs/spec/health.md 8.3 and docs/spec/haproxy.md 10.4.2.
async fn a_stopped_reader_finishes_what_it_has_begun(
    stack: &Stack,
    large: &Bytes,
    small: &Bytes,
) -> anyhow::Result<()> {
    let load = Load::start(stack.http(), &stack.proxy.url(&raw(SMALL)), small, 8);
    let (reader, mut download) = begin_on_a_reader(stack).await?;
    download.read_to(MIB.try_into()?).await?;
    let node = &stack.readers[reader];

    let begun = load.whole();
    let watch = async {
        stack.proxy.sees(3).await?;
        ensure!(node.is_running().await?, "HAProxy noticed only the end of the process");
        anyhow::Ok(Instant::now())
    };
    let read = async {
        let whole = download.read_to_end().await;
        (whole, Instant::now())
    };
    let all = async { tokio::join!(node.stop(), watch, read) };
    let (stopped, seen, (whole, ended)) = within("a reader's stop", Duration::from_mins(1), all).await?;
    stopped?;
    let seen = seen?;
    assert!(whole && download.received == *large, "the running download was cut");
    assert!(seen < ended, "HAProxy noticed the drain only after the last download");
    assert_eq!(
        node.exit_code(Duration::from_secs(1)).await?,
        0,
        "a stop that was asked for"
    );
    for code in ["drain.started", "drain.settled", "api.stopped"] {
        ensure!(
            node.logged(code).await?.is_some(),
            "no {code} in the log: {:?}",
            node.log().await?
        );
    }
    let meanwhile = load.whole() - begun;
    assert!(meanwhile > 50, "hardly any other request in the meantime: {meanwhile}");
    load.end()
        .await
        .context("a request that began while a reader drained failed")
}
