//! My slot, and the ownership of the storage: what this process may rely on while it serves
//! (docs/spec/leases.md).
//!
//! Both are decided by pure machines ([`state`], [`ownership`]) that are told what happened and when, and say what to do
//! next. [`keeper`] and [`owner`] are the thin drivers with a clock and a connection. Both hand out a
//! [`Window`](crate::model::trust::Window); a [`Trust`](crate::model::trust::Trust) over them is asked before and after
//! every piece of work.

pub mod error;
pub mod facts;
pub mod keeper;
pub mod owner;
pub mod ownership;
pub mod state;

pub use error::Error;
pub use keeper::{Lease, Settings};
pub use owner::{Changes, Ownership};

pub use crate::catalog::anchors::Claim;
pub use crate::catalog::policy::{BadPolicy, Policy};
pub use crate::catalog::slots::{Grant, Instance, Wanted};

/// How a keeper's task ended. In both cases what it kept has ceased, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// It was cancelled.
    Closed,
    /// It was lost. The process must stop, and exit with code 1.
    Lost(Cause),
}

/// Why a lease or the ownership was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The window closed before the database gave a good answer.
    WindowClosed,
    /// The lease row is gone: expired, or somebody else's.
    LeaseGone,
    /// A session lock is held by somebody else, or another claim was refused.
    LockRefused,
}

impl Cause {
    /// A constant word for log lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WindowClosed => "window_closed",
            Self::LeaseGone => "lease_gone",
            Self::LockRefused => "lock_refused",
        }
    }
}
