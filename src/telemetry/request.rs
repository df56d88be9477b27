//! The request that is being worked on, so that every log line about it has its id (docs/spec/errors.md 3.3).

use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static REQUEST_ID: Arc<str>;
}

/// Runs `work` on behalf of the request with this id: log lines that it writes name it.
pub async fn on_behalf_of<T>(request_id: Arc<str>, work: impl Future<Output = T>) -> T {
    REQUEST_ID.scope(request_id, work).await
}

/// The id of the request that the current task works for.
pub fn current() -> Option<Arc<str>> {
    REQUEST_ID.try_with(Arc::clone).ok()
}
