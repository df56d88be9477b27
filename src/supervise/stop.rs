//! Why a process stops.

use std::time::Duration;

/// An order to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// For the log: what happened, in a few words.
    pub reason: &'static str,
    /// What the process ends with.
    pub exit_code: u8,
    /// Whether running responses are cut instead of being given the drain window.
    pub at_once: bool,
}

impl Stop {
    /// Somebody asked: drain, then exit 0.
    pub const fn asked(reason: &'static str) -> Self {
        Self {
            reason,
            exit_code: 0,
            at_once: false,
        }
    }

    /// Something is broken that the process can't go on without, but may finish what it has begun: drain, then exit 1.
    pub const fn failed(reason: &'static str) -> Self {
        Self {
            reason,
            exit_code: 1,
            at_once: false,
        }
    }

    /// The right to serve is lost: nothing may go on, exit 1.
    pub const fn lost(reason: &'static str) -> Self {
        Self {
            reason,
            exit_code: 1,
            at_once: true,
        }
    }

    /// This order after `other` came too: the worse of both. The reason is that of the first bad one.
    pub(super) const fn and(self, other: Self) -> Self {
        let at_once = self.at_once || other.at_once;
        let worse = if other.exit_code > self.exit_code { other } else { self };
        Self { at_once, ..worse }
    }
}

/// Ends the process with exit code 1 when `limit` has passed, whatever the runtime is doing then
/// (`api.stop_timeout`; the hard limit of docs/spec/health.md 8.3).
pub fn exit_after(limit: Duration) {
    let wait = move || {
        std::thread::sleep(limit);
        tracing::error!(code = "api.stop_timeout", seconds = limit.as_secs());
        // The log is written by another thread; give it a moment.
        std::thread::sleep(Duration::from_millis(100));
        std::process::exit(1);
    };
    let spawned = std::thread::Builder::new().name("exit-after".to_owned()).spawn(wait);
    if let Err(error) = spawned {
        tracing::error!(
            code = "process.unhandled",
            errorName = "thread",
            errno = error.raw_os_error()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_worse_order_wins() {
        let signal = Stop::asked("signal");
        assert_eq!(signal.and(Stop::asked("again")), signal);
        assert_eq!(signal.and(Stop::failed("task")), Stop::failed("task"));
        assert_eq!(Stop::failed("task").and(signal), Stop::failed("task"));
        assert_eq!(signal.and(Stop::lost("lease")), Stop::lost("lease"));
        assert_eq!(
            Stop::failed("task").and(Stop::lost("lease")),
            Stop {
                at_once: true,
                ..Stop::failed("task")
            }
        );
    }

    /// Tells the test below that it is the process to be ended.
    const CHILD: &str = "TEST_IS_THE_STUCK_PROCESS";

    #[test]
    fn a_stuck_process_ends() {
        if std::env::var_os(CHILD).is_some() {
            exit_after(Duration::from_millis(50));
            std::thread::sleep(Duration::from_mins(1));
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child
            .env(CHILD, "1")
            .args(["--exact", "supervise::stop::tests::a_stuck_process_ends"]);
        assert_eq!(child.output().unwrap().status.code(), Some(1));
    }
}
