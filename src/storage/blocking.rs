//! System calls that may wait for a disk, off the async threads.

use std::io;

use tokio::task::{JoinError, spawn_blocking};

/// Runs `work` on the blocking pool. It goes on when the caller stops waiting for it.
///
/// Fails only when the runtime is stopping and `work` was not begun.
pub(super) async fn off_thread<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    joined(spawn_blocking(work).await)
}

/// What a piece of blocking work came to. Its panic goes on in the caller.
pub(super) fn joined<T>(result: Result<T, JoinError>) -> io::Result<T> {
    result.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => io::Error::other(error),
    })
}
