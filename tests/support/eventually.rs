//! Waiting without sleeping for a fixed time.

use std::time::Duration;

use tokio::time::Instant;

/// Asks `whether` again and again until it holds; fails the test after `within`.
pub(crate) async fn eventually(within: Duration, what: &str, mut whether: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + within;
    while !whether().await {
        assert!(Instant::now() < end, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
