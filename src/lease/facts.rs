//! What the metrics tell about a lease or an ownership (docs/spec/health.md 8.2).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Moment;
use crate::model::trust::Window;

/// How the attempts went so far: renewals of a lease, probes and retakings of an ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Beginning of the last one that succeeded.
    pub began: Moment,
    /// How long that one took.
    pub took: Duration,
    /// How many succeeded.
    pub succeeded: u64,
    /// How many failed.
    pub failed: u64,
}

/// A view of a lease or an ownership that outlives its task.
#[derive(Clone, Debug)]
pub struct Facts {
    window: Arc<Window>,
    progress: watch::Receiver<Progress>,
}

impl Facts {
    /// Time since the beginning of the last good attempt.
    pub fn age(&self, now: Moment) -> Duration {
        now.since(self.progress.borrow().began)
    }

    /// Time until the window closes if nothing extends it; zero when it has closed.
    pub fn left(&self, now: Moment) -> Duration {
        self.window.left(now)
    }

    /// The window itself.
    pub const fn window(&self) -> &Arc<Window> {
        &self.window
    }

    /// The progress, as a value that can be waited on: it changes with every attempt, so that a histogram of durations
    /// can be fed from it.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }
}

/// The writing end of [`Facts`].
#[derive(Debug)]
pub(super) struct Record {
    window: Arc<Window>,
    progress: watch::Sender<Progress>,
    failing: bool,
}

impl Record {
    /// Starts with the first good answer.
    pub(super) fn new(window: Arc<Window>, began: Moment, now: Moment) -> Self {
        Self {
            window,
            progress: watch::Sender::new(Progress {
                began,
                took: now.since(began),
                succeeded: 1,
                failed: 0,
            }),
            failing: false,
        }
    }

    pub(super) const fn window(&self) -> &Arc<Window> {
        &self.window
    }

    pub(super) fn facts(&self) -> Facts {
        Facts {
            window: Arc::clone(&self.window),
            progress: self.progress.subscribe(),
        }
    }

    /// Counts a success; true when it is the first one after a failure.
    pub(super) fn success(&mut self, began: Moment, now: Moment) -> bool {
        self.progress.send_modify(|progress| {
            progress.began = began;
            progress.took = now.since(began);
            progress.succeeded += 1;
        });
        std::mem::take(&mut self.failing)
    }

    /// Counts a failure; true when it is the first one after a success.
    pub(super) fn failure(&mut self) -> bool {
        self.progress.send_modify(|progress| progress.failed += 1);
        !std::mem::replace(&mut self.failing, true)
    }
}

/// What was kept ends with its keeper, however that ends.
impl Drop for Record {
    fn drop(&mut self) {
        self.window.close();
    }
}
