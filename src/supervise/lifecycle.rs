//! Where a process is between its start and its end; asked on every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::readiness::{Latch, Readiness};

/// A stage of a process's life. Stages only go forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Something that it needs isn't up yet.
    Starting,
    /// It serves.
    Ready,
    /// It was told to stop: running responses go on, new requests are refused.
    Draining,
    /// It serves nothing any more.
    Stopped,
}

const RUNNING: u8 = 0;
const DRAINING: u8 = 1;
const STOPPED: u8 = 2;

/// The phase of this process, shared by all who ask; one atomic read per question.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    stage: Arc<AtomicU8>,
    readiness: Readiness,
}

impl Lifecycle {
    /// A process that starts; it becomes ready when the latch and all of its clones are released.
    pub fn new() -> (Self, Latch) {
        let (readiness, latch) = Readiness::new();
        let stage = Arc::new(AtomicU8::new(RUNNING));
        (Self { stage, readiness }, latch)
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        match self.stage.load(Ordering::Acquire) {
            RUNNING if self.readiness.is_ready() => Phase::Ready,
            RUNNING => Phase::Starting,
            DRAINING => Phase::Draining,
            _ => Phase::Stopped,
        }
    }

    /// Whether new requests must be refused.
    pub fn is_draining(&self) -> bool {
        self.stage.load(Ordering::Acquire) != RUNNING
    }

    pub(super) fn drain(&self) {
        self.stage.fetch_max(DRAINING, Ordering::AcqRel);
    }

    pub(super) fn stopped(&self) {
        self.stage.fetch_max(STOPPED, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_go_forward() {
        let (life, latch) = Lifecycle::new();
        assert_eq!(life.phase(), Phase::Starting);
        latch.release();
        assert_eq!(life.phase(), Phase::Ready);
        assert!(!life.is_draining());
        life.drain();
        assert_eq!(life.phase(), Phase::Draining);
        life.stopped();
        life.drain();
        assert_eq!(life.phase(), Phase::Stopped);
        assert!(life.is_draining());
    }

    #[test]
    fn a_process_can_be_stopped_before_it_is_ready() {
        let (life, latch) = Lifecycle::new();
        life.drain();
        latch.release();
        assert_eq!(life.phase(), Phase::Draining);
    }
}
