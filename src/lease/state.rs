//! The lease as a pure machine (docs/spec/leases.md 5.2 to 5.4).
//!
//! The driver tells it what happened and what time it is; the machine answers with the one thing to do next. It never
//! has two attempts under way, and whatever the driver does, its window is open only while both clocks are below the
//! deadlines of the last good answer.

use std::sync::Arc;
use std::time::Duration;

use super::Cause;
use crate::catalog::slots::{Grant, Reservation, Wanted};
use crate::clock::Moment;
use crate::model::member::Slot;
use crate::model::trust::Window;

/// The spans of docs/spec/leases.md 5.2. The reservation of 10 s is the database's (`catalog::slots`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a good answer is trusted, from the moment before its request was sent.
    pub trust: Duration,
    /// From a success to the beginning of the next renewal.
    pub renew: Duration,
    /// From a failed renewal to the beginning of the next one.
    pub retry: Duration,
    /// Deadline of one renewal, connecting included.
    pub renewal: Duration,
    /// Deadline of one attempt to acquire: a later answer would be dead at birth.
    pub acquisition: Duration,
    /// Longest wait for a slot that is reserved.
    pub wait: Duration,
    /// Longest pause between two attempts to acquire.
    pub poll: Duration,
    /// Added to the remaining time of a reservation, so that it is over when the attempt arrives.
    pub margin: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            trust: Duration::from_secs(8),
            renew: Duration::from_secs(2),
            retry: Duration::from_millis(250),
            renewal: Duration::from_secs(1),
            acquisition: Duration::from_secs(8),
            wait: Duration::from_secs(15),
            poll: Duration::from_secs(1),
            margin: Duration::from_millis(50),
        }
    }
}

/// What happened. `began` is the moment at which the machine asked for the attempt, BEFORE anything of it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing; time passed.
    Tick,
    /// The slot was given, and the transaction is committed.
    Granted {
        /// Beginning of the attempt.
        began: Moment,
        /// What was given.
        grant: Grant,
    },
    /// The slot, or every slot, is somebody else's.
    Reserved(Reservation),
    /// The lease was renewed, and the transaction is committed.
    Renewed {
        /// Beginning of the attempt.
        began: Moment,
    },
    /// The renewal found no row to change.
    Gone,
    /// The attempt failed or met its deadline; its connection is destroyed.
    Failed,
}

/// What the driver must do next. After an attempt the machine is told its outcome, after anything else it is ticked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Acquire the slot, and report the outcome when it is known or `deadline` has passed since now.
    Acquire {
        /// From now; connecting included.
        deadline: Duration,
    },
    /// Renew the lease, in the same way.
    Renew {
        /// From now; connecting included.
        deadline: Duration,
    },
    /// Wait until the monotonic clock shows this.
    SleepUntil(Duration),
    /// The lease is active. Said once.
    Activated(Grant),
    /// The lease could not be had. For ever.
    Fail(Failure),
    /// The lease was lost. For ever.
    Lost(Cause),
}

/// Why a lease could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The last attempt failed; the driver knows how.
    Attempt,
    /// Somebody renews the slot.
    Held(Slot),
    /// Reserved for longer than a start waits.
    Reserved(Slot),
    /// No slot for an `auto` reader for longer than a start waits.
    AllTaken,
    /// The answer came after its own trust had ended.
    TooLate,
}

#[derive(Debug)]
enum Phase {
    Waiting {
        since: Option<Moment>,
        expiry: Option<String>,
        next: Duration,
    },
    Active {
        window: Arc<Window>,
        next: Duration,
    },
    Over(Effect),
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    timings: Timings,
    wanted: Wanted,
    under_way: bool,
    phase: Phase,
}

impl Machine {
    /// A lease that has not been asked for yet.
    pub const fn new(wanted: Wanted, timings: Timings) -> Self {
        Self {
            timings,
            wanted,
            under_way: false,
            phase: Phase::Waiting {
                since: None,
                expiry: None,
                next: Duration::ZERO,
            },
        }
    }

    /// The window, while the lease is active.
    pub const fn window(&self) -> Option<&Arc<Window>> {
        match &self.phase {
            Phase::Active { window, .. } => Some(window),
            _ => None,
        }
    }

    /// Takes note of what happened and says what to do. Outcomes without an attempt under way are ignored.
    pub fn handle(&mut self, event: Event, now: Moment) -> Effect {
        if event != Event::Tick && !std::mem::take(&mut self.under_way) {
            return self.next(now);
        }
        match (&mut self.phase, event) {
            (Phase::Waiting { .. }, Event::Granted { began, grant }) => return self.granted(grant, began, now),
            (Phase::Waiting { .. }, Event::Reserved(reservation)) => return self.reserved(&reservation, now),
            (Phase::Waiting { .. }, Event::Failed) => return self.fail(Failure::Attempt),
            (Phase::Active { window, next }, Event::Renewed { began }) if window.extend(began, now).is_ok() => {
                *next = now.monotonic + self.timings.renew;
            }
            (Phase::Active { .. }, Event::Gone) => return self.lose(Cause::LeaseGone),
            (Phase::Active { next, .. }, Event::Failed) => *next = now.monotonic + self.timings.retry,
            _ => {}
        }
        self.next(now)
    }

    fn next(&mut self, now: Moment) -> Effect {
        match &mut self.phase {
            Phase::Over(effect) => *effect,
            Phase::Waiting { since, next, .. } => {
                since.get_or_insert(now);
                if self.under_way || now.monotonic < *next {
                    return Effect::SleepUntil(*next);
                }
                self.under_way = true;
                *next = now.monotonic + self.timings.acquisition;
                Effect::Acquire {
                    deadline: self.timings.acquisition,
                }
            }
            Phase::Active { window, next } => {
                let left = window.left(now);
                if left.is_zero() {
                    return self.lose(Cause::WindowClosed);
                }
                if self.under_way || now.monotonic < *next {
                    return Effect::SleepUntil((*next).min(now.monotonic + left));
                }
                self.under_way = true;
                let deadline = self.timings.renewal.min(left);
                *next = now.monotonic + deadline;
                Effect::Renew { deadline }
            }
        }
    }

    fn granted(&mut self, grant: Grant, began: Moment, now: Moment) -> Effect {
        match Window::open(self.timings.trust, began, now) {
            Ok(window) => {
                self.phase = Phase::Active {
                    window: Arc::new(window),
                    next: now.monotonic + self.timings.renew,
                };
                Effect::Activated(grant)
            }
            Err(_) => self.fail(Failure::TooLate),
        }
    }

    /// The first answer remembers the expiry; a later one with another text means that a live process renews the slot.
    /// An `auto` reader waits for any slot, so others that are renewed tell it nothing.
    fn reserved(&mut self, reservation: &Reservation, now: Moment) -> Effect {
        let slot = reservation.slot;
        let auto = self.wanted == Wanted::Auto;
        let Phase::Waiting { since, expiry, next } = &mut self.phase else {
            return self.next(now);
        };
        if !auto && *expiry.get_or_insert_with(|| reservation.expiry.clone()) != reservation.expiry {
            return self.fail(Failure::Held(slot));
        }
        *next = now.monotonic + self.timings.poll.min(reservation.remaining + self.timings.margin);
        let since = *since.get_or_insert(now);
        if *next > since.monotonic + self.timings.wait {
            return self.fail(if auto {
                Failure::AllTaken
            } else {
                Failure::Reserved(slot)
            });
        }
        self.next(now)
    }

    fn fail(&mut self, failure: Failure) -> Effect {
        let effect = Effect::Fail(failure);
        self.phase = Phase::Over(effect);
        effect
    }

    fn lose(&mut self, cause: Cause) -> Effect {
        if let Phase::Active { window, .. } = &self.phase {
            window.close();
        }
        let effect = Effect::Lost(cause);
        self.phase = Phase::Over(effect);
        effect
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
