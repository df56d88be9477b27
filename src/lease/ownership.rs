//! The ownership of the storage as a pure machine (docs/spec/leases.md 5.5).
//!
//! A broken session is not a loss by itself: it is reopened and all its locks are retaken, as long as the window of the
//! last good probe is open. Meanwhile reads go on, but no change may start or commit. A lock that somebody else took in
//! between is a loss at once.

use std::sync::Arc;
use std::time::Duration;

use super::Cause;
use crate::clock::Moment;
use crate::model::trust::{Closed, Window};

/// The spans of docs/spec/leases.md 5.2 and 5.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a good probe is trusted, from the moment before it was sent.
    pub trust: Duration,
    /// From the beginning of a good probe to the next one.
    pub probe: Duration,
    /// Deadline of one probe.
    pub probing: Duration,
    /// From a failed attempt to retake the locks to the next one.
    pub retry: Duration,
    /// Deadline of one attempt to retake the locks, connecting included.
    pub retaking: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            trust: Duration::from_secs(8),
            probe: Duration::from_secs(2),
            probing: Duration::from_secs(2),
            retry: Duration::from_millis(250),
            retaking: Duration::from_secs(1),
        }
    }
}

/// What happened. `began` is the moment at which the machine asked for the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing; time passed.
    Tick,
    /// The probe found all locks.
    Probed {
        /// Beginning of the probe.
        began: Moment,
    },
    /// The session broke: the probe failed, met its deadline or missed a lock, or the connection ended on its own. It
    /// is destroyed.
    Broken,
    /// A new session holds all locks.
    Retaken {
        /// Beginning of the attempt.
        began: Moment,
    },
    /// The attempt to retake the locks failed or met its deadline; its session is destroyed.
    Failed,
    /// Another process stands in the way.
    Refused,
}

/// What the driver must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Probe the session, and report the outcome when it is known or `deadline` has passed since now.
    Probe {
        /// From now.
        deadline: Duration,
    },
    /// Open a new session and retake all locks, in the same way.
    Retake {
        /// From now; connecting included.
        deadline: Duration,
    },
    /// Wait until the monotonic clock shows this, or until the session breaks.
    SleepUntil(Duration),
    /// The ownership was lost. For ever.
    Lost(Cause),
}

#[derive(Debug)]
enum Phase {
    Held,
    Broken,
    Lost(Cause),
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    timings: Timings,
    window: Arc<Window>,
    under_way: bool,
    next: Duration,
    phase: Phase,
}

impl Machine {
    /// An ownership whose first probe, begun at `began`, was good. Fails if its trust has ended already.
    pub fn held(timings: Timings, began: Moment, now: Moment) -> Result<Self, Closed> {
        Ok(Self {
            timings,
            window: Arc::new(Window::open(timings.trust, began, now)?),
            under_way: false,
            next: began.monotonic + timings.probe,
            phase: Phase::Held,
        })
    }

    /// The window in which reads may go on.
    pub const fn window(&self) -> &Arc<Window> {
        &self.window
    }

    /// Whether all locks are held, as far as is known. While they are not, no change starts or commits.
    pub const fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held)
    }

    /// Takes note of what happened and says what to do. Outcomes without an attempt under way are ignored, except that
    /// a session can break at any time.
    pub fn handle(&mut self, event: Event, now: Moment) -> Effect {
        let asked = event != Event::Tick && std::mem::take(&mut self.under_way);
        match (&self.phase, event) {
            (Phase::Held, Event::Probed { began }) if asked => self.good(began, now),
            (Phase::Held, Event::Broken) => {
                self.phase = Phase::Broken;
                self.next = now.monotonic;
            }
            (Phase::Broken, Event::Retaken { began }) if asked => self.good(began, now),
            (Phase::Broken, Event::Failed) if asked => self.next = now.monotonic + self.timings.retry,
            (Phase::Broken, Event::Refused) if asked => return self.lose(Cause::LockRefused),
            _ => {}
        }
        self.next(now)
    }

    fn good(&mut self, began: Moment, now: Moment) {
        if self.window.extend(began, now).is_ok() {
            self.phase = Phase::Held;
            self.next = began.monotonic + self.timings.probe;
        }
    }

    fn next(&mut self, now: Moment) -> Effect {
        let left = self.window.left(now);
        match self.phase {
            Phase::Lost(cause) => return Effect::Lost(cause),
            _ if left.is_zero() => return self.lose(Cause::WindowClosed),
            _ if self.under_way || now.monotonic < self.next => {
                return Effect::SleepUntil(self.next.min(now.monotonic + left));
            }
            _ => self.under_way = true,
        }
        let held = self.is_held();
        let longest = if held {
            self.timings.probing
        } else {
            self.timings.retaking
        };
        let deadline = longest.min(left);
        self.next = now.monotonic + deadline;
        if held {
            Effect::Probe { deadline }
        } else {
            Effect::Retake { deadline }
        }
    }

    fn lose(&mut self, cause: Cause) -> Effect {
        self.window.close();
        self.phase = Phase::Lost(cause);
        Effect::Lost(cause)
    }
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
