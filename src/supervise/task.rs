//! The only place that spawns.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Latch, Lifecycle, Stop};

/// What follows when a task ends although nobody has asked the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEnd {
    /// A line in the log.
    Log,
    /// The process can't go on: it drains and exits with 1.
    Stop,
}

/// What becomes of a task when the process closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtStop {
    /// It watches [`Tasks::hard`] itself and is given time to end in order.
    Wait,
    /// It is dropped where it waits.
    Abort,
}

/// A sort of task, with the consequences of its end declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskKind {
    /// For log and metrics; one of a few.
    pub name: &'static str,
    /// What follows when it ends unasked.
    pub on_end: OnEnd,
    /// What becomes of it when the process closes.
    pub at_stop: AtStop,
}

impl TaskKind {
    /// A kind.
    pub const fn new(name: &'static str, on_end: OnEnd, at_stop: AtStop) -> Self {
        Self { name, on_end, at_stop }
    }
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// All work has ended (`drain.settled`).
    Settled,
    /// The window is over, work is left (`drain.timeout`).
    TimedOut,
    /// A second signal or a loss cut it short, work is left.
    CutShort,
}

/// All tasks of this process; a cheap handle.
#[derive(Clone, Debug)]
pub struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lifecycle: Lifecycle,
    soft: CancellationToken,
    hard: CancellationToken,
    stop: Mutex<Option<Stop>>,
    /// Work of requests: what a drain waits for.
    work: TaskTracker,
    /// Everything else.
    background: TaskTracker,
    alive: Mutex<BTreeMap<&'static str, usize>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tasks {
    /// No tasks yet. The process is ready when the latch and its clones are released.
    pub fn new() -> (Self, Latch) {
        let (lifecycle, latch) = Lifecycle::new();
        let inner = Inner {
            lifecycle,
            soft: CancellationToken::new(),
            hard: CancellationToken::new(),
            stop: Mutex::new(None),
            work: TaskTracker::new(),
            background: TaskTracker::new(),
            alive: Mutex::new(BTreeMap::new()),
        };
        inner.work.close();
        inner.background.close();
        (Self(Arc::new(inner)), latch)
    }

    /// Runs `task` for as long as the process lives. It goes on while the process drains.
    pub fn spawn(&self, kind: TaskKind, task: impl Future<Output = ()> + Send + 'static) {
        let alive = self.enter(kind.name, &self.0.background);
        let tasks = self.clone();
        start(async move {
            let hard = tasks.0.hard.clone();
            let task = AssertUnwindSafe(task).catch_unwind();
            let ended = match kind.at_stop {
                AtStop::Wait => Some(task.await),
                AtStop::Abort => hard.run_until_cancelled(task).await,
            };
            match ended {
                None => {}
                Some(Err(_)) => {
                    unhandled(kind.name);
                    tasks.follow(kind);
                }
                Some(Ok(())) if tasks.0.soft.is_cancelled() => {}
                Some(Ok(())) => {
                    tracing::error!(code = "task.ended", task = kind.name);
                    tasks.follow(kind);
                }
            }
            drop(alive);
        });
    }

    /// Runs work of a request that must go on although its caller has left, such as a connection or the last steps of a
    /// publication. A drain waits for it; the close of the process drops it where it waits.
    ///
    /// Dropping the returned handle doesn't end the work.
    pub fn spawn_detached_work<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Work<T> {
        let alive = self.enter(name, &self.0.work);
        let hard = self.0.hard.clone();
        Work(start(async move {
            let ended = hard.run_until_cancelled(AssertUnwindSafe(work).catch_unwind()).await;
            drop(alive);
            match ended {
                Some(Ok(result)) => Ok(result),
                Some(Err(_)) => {
                    unhandled(name);
                    Err(WorkLost)
                }
                None => Err(WorkLost),
            }
        }))
    }

    /// Orders the process to stop. Orders add up: the worse exit code wins, and a loss cuts a drain short.
    pub fn stop(&self, order: Stop) {
        let sum = {
            let mut stop = lock(&self.0.stop);
            let sum = stop.map_or(order, |earlier| earlier.and(order));
            *stop = Some(sum);
            sum
        };
        self.0.lifecycle.drain();
        self.0.soft.cancel();
        if sum.at_once {
            self.0.hard.cancel();
        }
    }

    /// The order to stop, if there is one; also later, for the exit code.
    pub fn order(&self) -> Option<Stop> {
        *lock(&self.0.stop)
    }

    /// Waits for the first order to stop.
    pub async fn stopping(&self) -> Stop {
        loop {
            if let Some(order) = self.order() {
                return order;
            }
            self.0.soft.cancelled().await;
        }
    }

    /// Waits for the work that is running, at most for `limit`, and not after a second signal or a loss.
    pub async fn drain(&self, limit: Duration) -> Drained {
        let settled = tokio::time::timeout(limit, self.0.hard.run_until_cancelled(self.0.work.wait())).await;
        match settled {
            _ if self.0.work.is_empty() => Drained::Settled,
            Err(_) => Drained::TimedOut,
            Ok(_) => Drained::CutShort,
        }
    }

    /// Ends everything and waits for it, at most for `limit`. Tells whether all tasks have ended.
    pub async fn close(&self, limit: Duration) -> bool {
        if self.order().is_none() {
            self.stop(Stop::asked("closed"));
        }
        self.0.lifecycle.stopped();
        self.0.hard.cancel();
        let all = async {
            self.0.work.wait().await;
            self.0.background.wait().await;
        };
        tokio::time::timeout(limit, all).await.is_ok()
    }

    /// Cut short whatever a drain still waits for.
    pub fn hasten(&self) {
        self.0.hard.cancel();
    }

    /// Cancelled when the process begins to drain.
    pub fn soft(&self) -> &CancellationToken {
        &self.0.soft
    }

    /// Cancelled when everything must end.
    pub fn hard(&self) -> &CancellationToken {
        &self.0.hard
    }

    /// Where the process is in its life.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.0.lifecycle
    }

    /// How many tasks live, by the name of their kind; for metrics.
    pub fn alive(&self) -> Vec<(&'static str, usize)> {
        lock(&self.0.alive)
            .iter()
            .map(|(name, count)| (*name, *count))
            .collect()
    }

    fn follow(&self, kind: TaskKind) {
        if kind.on_end == OnEnd::Stop {
            self.stop(Stop::failed("a task ended"));
        }
    }

    fn enter(&self, name: &'static str, tracker: &TaskTracker) -> Alive {
        *lock(&self.0.alive).entry(name).or_default() += 1;
        Alive {
            tasks: self.clone(),
            name,
            _token: tracker.token(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where everything else must spawn")]
fn start<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}

fn unhandled(task: &'static str) {
    tracing::error!(code = "process.unhandled", errorName = "panic", task);
}

/// Counts a task while it lives, however it ends.
struct Alive {
    tasks: Tasks,
    name: &'static str,
    _token: TaskTrackerToken,
}

impl Drop for Alive {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.tasks.0.alive).get_mut(self.name) {
            *count = count.saturating_sub(1);
        }
    }
}

/// Work that runs by itself; await it for its result.
#[must_use = "await it, or drop it to let the work go on unseen"]
pub struct Work<T>(JoinHandle<Result<T, WorkLost>>);

/// Work has panicked, or the process closed before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was not finished")]
pub struct WorkLost;

impl<T> Future for Work<T> {
    type Output = Result<T, WorkLost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(cx).map(|joined| joined.unwrap_or(Err(WorkLost)))
    }
}

impl<T> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}
