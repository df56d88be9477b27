//! Tasks, signals and the order of stopping (docs/spec/health.md 8.3).
//!
//! Everything that runs is spawned through [`Tasks`], which knows two levels of stopping. *Soft* begins the drain: no
//! new work is taken, what runs goes on, the lease is still renewed. *Hard* ends everything that is left. The driver in
//! `role` walks from one to the other:
//!
//! 1. [`Tasks::stopping`] returns: a signal came, a task ended unasked, or ownership was lost.
//! 2. The listener stays open for a while, so that a balancer sees `draining`.
//! 3. [`Tasks::drain`] waits for the work that is running.
//! 4. [`Tasks::close`] ends the rest; the process exits with [`Stop::exit_code`].

mod lifecycle;
mod readiness;
pub mod signals;
mod stop;
mod task;

pub use lifecycle::{Lifecycle, Phase};
pub use readiness::{Latch, Readiness};
pub use stop::{Stop, exit_after};
pub use task::{AtStop, Drained, OnEnd, TaskKind, Tasks, Work, WorkLost};

#[cfg(test)]
mod tests;
