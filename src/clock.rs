//! Time as a value that is passed in. Nothing else in the program asks the system what time it is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One reading of both local clocks, taken together.
///
/// Leases need both (docs/spec/leases.md 5.4): the monotonic one can't be set, the wall clock tells of time that passed
/// while the machine was frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time since the host booted, sleep included.
    pub monotonic: Duration,
    /// Time since 1970-01-01 UTC by the host's adjustable clock.
    pub wall: Duration,
}

impl Moment {
    /// This moment later by `span` on both clocks.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self {
            monotonic: self.monotonic + span,
            wall: self.wall + span,
        }
    }

    /// Monotonic time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic)
    }

    /// The wall clock as a date.
    pub fn date(self) -> time::OffsetDateTime {
        time::OffsetDateTime::UNIX_EPOCH + self.wall
    }
}

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Moment;
}

/// The host's clocks. The monotonic one is `CLOCK_BOOTTIME`, which runs on while the host sleeps.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(feature = "server")]
impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let read = |id| {
            let t = rustix::time::clock_gettime(id);
            Duration::new(
                u64::try_from(t.tv_sec).unwrap_or(0),
                u32::try_from(t.tv_nsec).unwrap_or(0),
            )
        };
        Moment {
            monotonic: read(rustix::time::ClockId::Boottime),
            wall: read(rustix::time::ClockId::Realtime),
        }
    }
}

/// A clock for tests: stands still until it is moved.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<Mutex<Moment>>);

impl Default for TestClock {
    fn default() -> Self {
        let start = Moment {
            monotonic: Duration::from_secs(1_000),
            wall: Duration::from_hours(500_000),
        };
        Self(Arc::new(Mutex::new(start)))
    }
}

impl TestClock {
    /// Moves both clocks on.
    pub fn advance(&self, span: Duration) {
        self.set(self.now().after(span));
    }

    /// Sets both clocks, also backwards.
    pub fn set(&self, moment: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
