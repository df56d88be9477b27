//! Whether this process may still act: asked before and after every piece of work, answered from memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Moment};

/// A span of time in which something that the database granted may be relied on, measured by two clocks
/// (docs/spec/leases.md 5.4).
///
/// It is open while BOTH clocks are below their deadlines. Found closed once, it stays closed for ever: neither a wall
/// clock turned back nor a late answer opens it again.
#[derive(Debug)]
pub struct Window {
    span: Duration,
    monotonic_deadline: AtomicU64,
    wall_deadline: AtomicU64,
    closed: AtomicBool,
}

/// The window has closed; what it stood for is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the window has closed")]
pub struct Closed;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Window {
    /// Opens a window with an answer to a request begun at `began` that arrived at `now`.
    ///
    /// Fails when `span` has passed between them: it would be closed from the start.
    pub fn open(span: Duration, began: Moment, now: Moment) -> Result<Self, Closed> {
        let window = Self {
            span,
            monotonic_deadline: AtomicU64::new(nanos(began.monotonic + span)),
            wall_deadline: AtomicU64::new(nanos(began.wall + span)),
            closed: AtomicBool::new(false),
        };
        if window.is_open(now) { Ok(window) } else { Err(Closed) }
    }

    /// Extends the window with a good answer, counted from the moment BEFORE its request was sent.
    pub fn extend(&self, began: Moment, now: Moment) -> Result<(), Closed> {
        if !self.is_open(now) {
            return Err(Closed);
        }
        self.monotonic_deadline
            .store(nanos(began.monotonic + self.span), Ordering::Release);
        self.wall_deadline
            .store(nanos(began.wall + self.span), Ordering::Release);
        if self.is_open(now) { Ok(()) } else { Err(Closed) }
    }

    /// Whether it is open. Finding it past a deadline closes it for ever.
    pub fn is_open(&self, now: Moment) -> bool {
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        let open = nanos(now.monotonic) < self.monotonic_deadline.load(Ordering::Acquire)
            && nanos(now.wall) < self.wall_deadline.load(Ordering::Acquire);
        if !open {
            self.close();
        }
        open
    }

    /// Closes it for ever.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Time until it closes if nothing extends it; zero when closed.
    pub fn left(&self, now: Moment) -> Duration {
        if !self.is_open(now) {
            return Duration::ZERO;
        }
        let left = |deadline: &AtomicU64, now| deadline.load(Ordering::Acquire).saturating_sub(nanos(now));
        Duration::from_nanos(left(&self.monotonic_deadline, now.monotonic).min(left(&self.wall_deadline, now.wall)))
    }
}

/// Proof, asked at any moment, that a process still owns what it serves from: the storage, and its slot if it has one.
#[derive(Clone)]
pub struct Trust {
    clock: Arc<dyn Clock>,
    windows: Arc<[Arc<Window>]>,
}

impl Trust {
    /// Trust that lasts while all of `windows` are open.
    pub fn new(clock: Arc<dyn Clock>, windows: impl Into<Arc<[Arc<Window>]>>) -> Self {
        Self {
            clock,
            windows: windows.into(),
        }
    }

    /// Whether the process may act now.
    pub fn holds(&self) -> bool {
        let now = self.clock.now();
        self.windows.iter().all(|window| window.is_open(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;

    const TRUST: Duration = Duration::from_secs(8);

    fn seconds(n: f64) -> Duration {
        Duration::from_secs_f64(n)
    }

    #[test]
    fn counted_from_the_beginning_of_the_request() {
        let began = TestClock::default().now();
        let window = Window::open(TRUST, began, began.after(seconds(7.0))).unwrap();
        assert!(window.is_open(began.after(seconds(7.999))));
        assert!(!window.is_open(began.after(seconds(8.0))));
        assert_eq!(
            window.extend(began.after(seconds(8.0)), began.after(seconds(8.0))),
            Err(Closed)
        );
    }

    #[test]
    fn a_late_answer_is_refused_and_kills() {
        let began = TestClock::default().now();
        let window = Window::open(TRUST, began, began).unwrap();
        assert_eq!(
            window.extend(began.after(seconds(2.0)), began.after(seconds(8.0))),
            Err(Closed)
        );
        assert!(!window.is_open(began.after(seconds(1.0))));
    }

    #[test]
    fn dead_at_birth() {
        let began = TestClock::default().now();
        assert!(Window::open(TRUST, began, began.after(seconds(9.0))).is_err());
    }

    #[test]
    fn a_sleeping_host_is_seen_by_the_wall_clock() {
        let began = TestClock::default().now();
        let window = Window::open(TRUST, began, began).unwrap();
        assert!(!window.is_open(Moment {
            wall: began.wall + seconds(9.0),
            ..began
        }));
        assert!(!window.is_open(began), "turning the clock back revives nothing");
    }

    #[test]
    fn trust_needs_every_window() {
        let clock = TestClock::default();
        let now = clock.now();
        let short = Arc::new(Window::open(seconds(1.0), now, now).unwrap());
        let long = Arc::new(Window::open(TRUST, now, now).unwrap());
        let trust = Trust::new(Arc::new(clock.clone()), vec![long, short]);
        assert!(trust.holds());
        clock.advance(seconds(1.0));
        assert!(!trust.holds());
    }
}
