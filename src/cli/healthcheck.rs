use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::config::Listen;

/// Longer than a check inside the process, shorter than what a container engine waits.
const TIMEOUT: Duration = Duration::from_secs(4);

pub(super) async fn run() -> anyhow::Result<()> {
    let address = Listen::from_process()?.local();
    let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build()?;
    let answer = client.get(format!("http://{address}/health/status")).send().await;
    let status = answer.with_context(|| format!("no answer from {address}"))?.status();
    if status.is_success() {
        Ok(())
    } else {
        bail!("the process on {address} is not ready: {status}")
    }
}
