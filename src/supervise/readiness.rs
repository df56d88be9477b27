//! Readiness as latches: whoever must be up before the process is ready holds one.

use std::sync::{Arc, Weak};

/// Tells whether every [`Latch`] has been released.
#[derive(Clone, Debug)]
pub struct Readiness(Weak<()>);

/// Keeps a process from being ready until it, and every clone of it, is released or dropped.
#[derive(Clone, Debug)]
pub struct Latch(Arc<()>);

impl Readiness {
    /// A readiness and its first latch.
    pub fn new() -> (Self, Latch) {
        let held = Arc::new(());
        (Self(Arc::downgrade(&held)), Latch(held))
    }

    /// Whether no latch is held any more. Once true, it stays true.
    pub fn is_ready(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl Latch {
    /// Says that its holder is up.
    pub fn release(self) {
        drop(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_the_last_latch_is_gone() {
        let (ready, first) = Readiness::new();
        let second = first.clone();
        first.release();
        assert!(!ready.is_ready());
        drop(second);
        assert!(ready.is_ready());
    }
}
