//! Waiting for something to become true, with an end.

use std::time::Duration;

use anyhow::bail;
use tokio::time::Instant;

const PAUSE: Duration = Duration::from_millis(50);

/// Asks until there is an answer. Fails when there is none within `limit`, or when asking fails.
pub(crate) async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if Instant::now() > end {
            bail!("not within {} s: {what}", limit.as_secs_f32());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The result of something that must end within `limit`.
pub(crate) async fn within<T>(what: &str, limit: Duration, work: impl Future<Output = T>) -> anyhow::Result<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => Ok(result),
        Err(_) => bail!("not within {} s: {what}", limit.as_secs_f32()),
    }
}
