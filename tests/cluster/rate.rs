//! The sum of what all processes send stays under the one rate, and reaches it.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::http::{noise, raw};
use crate::load::Load;
use crate::stack::{MIB, Policy, Slot, Stack};

const CLIENTS: usize = 32;
const LENGTH: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(250);

/// What was known at one moment.
struct Sample {
    /// Bytes that clients had read, all together, no later than `at`.
    received: u64,
    at: Duration,
    /// Bytes that each process had granted (docs/spec/health.md 8.1), read between `at` and `until`.
    granted: Vec<u64>,
    until: Duration,
}

impl Sample {
    /// Granted and not read yet: in the buffers of processes, kernels and HAProxy, and what was granted since `at`.
    fn on_the_way(&self) -> u64 {
        self.granted.iter().sum::<u64>() - self.received
    }
}

/// docs/spec/bandwidth.md 6.2.5 and 6.3.2. Of bytes that clients have read, exactly two things can be said:
///
/// - from the first request on, where nothing is on the way yet, they never exceed the sum of `burst + share * time`;
/// - in a window that begins later, they exceed that by no more than what was on the way when it began, and that is
///   known, because every process says what it has granted.
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_together_stay_under_the_rate_and_reach_it() -> anyhow::Result<()> {
    let policy = Policy::USUAL;
    let stack = Stack::start(policy, &[Slot::Auto; 3]).await?;
    let content = noise(4, usize::try_from(32 * MIB)?);
    stack.publish("large", &content).await?;

    let samples = observe(&stack, &content).await?;
    assert!(
        samples[0].granted.iter().all(|&granted| granted == 0),
        "the buckets aren't full at the start"
    );
    let burst = 4 * policy.burst();
    let under = |time: Duration| burst + exact(policy.bytes_per_second, time);

    for sample in &samples {
        let limit = under(sample.at);
        assert!(
            sample.received <= limit,
            "{} bytes after {:?}, {limit} allowed",
            sample.received,
            sample.at
        );
    }
    let windows = || {
        samples
            .iter()
            .enumerate()
            .flat_map(|(i, from)| samples[i + 1..].iter().map(move |to| (from, to)))
    };
    for (from, to) in windows() {
        let limit = under(to.at.saturating_sub(from.at)) + from.on_the_way();
        let received = to.received - from.received;
        assert!(
            received <= limit,
            "{received} bytes between {:?} and {:?}, {limit} allowed",
            from.at,
            to.at
        );
        // And each process by its own account, with no buffers between.
        for (number, (before, after)) in from.granted.iter().zip(&to.granted).enumerate() {
            let (granted, time) = (after - before, to.until.saturating_sub(from.at));
            let limit = policy.burst() + exact(policy.share(), time);
            assert!(
                granted <= limit,
                "process {number}: {granted} in {time:?}, {limit} allowed"
            );
        }
    }

    let last = samples.last().context("no sample")?;
    let live = exact(policy.bytes_per_second, last.at);
    let most = samples.iter().map(Sample::on_the_way).max().unwrap_or_default();
    let percent = |part: u64| f64::from(u32::try_from(part * 1000 / live).unwrap_or(u32::MAX)) / 10.0;
    println!(
        "{} bytes in {:?}: {} % of the shares of four processes; at most {most} bytes on the way",
        last.received,
        last.at,
        percent(last.received)
    );
    assert!(
        last.received * 10 >= live * 8,
        "only {} % of the shares were used",
        percent(last.received)
    );
    Ok(())
}

/// Lets many clients download through HAProxy, and looks four times a second.
async fn observe(stack: &Stack, content: &bytes::Bytes) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begin = Instant::now();
    samples.push(Sample {
        received: 0,
        at: Duration::ZERO,
        granted: granted(stack).await?,
        until: begin.elapsed(),
    });
    let begin = Instant::now();
    let load = Load::start(stack.http(), &stack.proxy.url(&raw("large")), content, CLIENTS);
    while begin.elapsed() < LENGTH {
        ticks.tick().await;
        // In this order: a clock that is read late only widens what is allowed.
        let received = load.received();
        let at = begin.elapsed();
        let granted = granted(stack).await?;
        samples.push(Sample {
            received,
            at,
            granted,
            until: begin.elapsed(),
        });
    }
    load.end().await.context("a download under full load")?;
    Ok(samples)
}

/// What each process has granted since its start.
async fn granted(stack: &Stack) -> anyhow::Result<Vec<u64>> {
    let asked = stack.processes().into_iter().map(|node| async {
        let body = node.readiness(stack.http()).await?;
        let granted = &body["transfers"]["downloads"]["bandwidth"]["grantedBytes"];
        granted
            .as_str()
            .and_then(|text| text.parse().ok())
            .with_context(|| format!("no grantedBytes: {body}"))
    });
    try_join_all(asked).await
}

/// `rate * time`, rounded up.
fn exact(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate) * time.as_nanos();
    u64::try_from(bytes.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
}
