//! SIGTERM and SIGINT: the first begins the drain, the second ends it.

use std::io;
use std::task::Poll;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::signal::unix::{SignalKind, signal};

use super::{AtStop, OnEnd, Stop, TaskKind, Tasks};

const SIGNALS: TaskKind = TaskKind::new("signals", OnEnd::Log, AtStop::Abort);

/// Listens from now on. Fails when the system refuses handlers.
pub fn listen(tasks: &Tasks) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let signals = stream::poll_fn(move |cx| match terminate.poll_recv(cx) {
        Poll::Pending => interrupt.poll_recv(cx),
        received @ Poll::Ready(_) => received,
    });
    tasks.spawn(SIGNALS, obey(tasks.clone(), signals));
    Ok(())
}

async fn obey(tasks: Tasks, mut signals: impl Stream<Item = ()> + Unpin + Send) {
    signals.next().await;
    tasks.stop(Stop::asked("signal"));
    signals.next().await;
    tracing::warn!(code = "drain.expedited");
    tasks.hasten();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    #[tokio::test]
    async fn first_soft_then_hard() {
        let (tasks, _latch) = Tasks::new();
        listen(&tasks).unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        assert_eq!(tasks.stopping().await, Stop::asked("signal"));
        assert!(!tasks.hard().is_cancelled());
        kill_process(getpid(), Signal::INT).unwrap();
        tasks.hard().cancelled().await;
    }
}
