//! What each kind of process claims of the storage, in the order of docs/spec/leases.md 5.6 step 5.

use crate::catalog::error::Refusal;
use crate::catalog::locks::{Lock, Mode};

/// Who claims the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A writer without a shared policy.
    Standalone,
    /// The writer of the gateway profile.
    Writer,
    /// A read gateway.
    Reader,
    /// The worker.
    Worker,
    /// An operator's tool that needs everything stopped.
    Maintenance,
}

impl Claim {
    /// The session locks, in the order in which they are tried.
    pub const fn locks(self) -> &'static [(Lock, Mode)] {
        use Lock::{Maintenance, Profile, Worker, Writer};
        use Mode::{Exclusive, Shared};
        match self {
            Self::Standalone => &[(Profile, Exclusive), (Writer, Exclusive), (Maintenance, Shared)],
            Self::Writer => &[(Profile, Shared), (Writer, Exclusive), (Maintenance, Shared)],
            Self::Reader => &[(Profile, Shared), (Maintenance, Shared)],
            Self::Worker => &[(Worker, Exclusive), (Maintenance, Shared)],
            Self::Maintenance => &[(Writer, Exclusive), (Maintenance, Exclusive)],
        }
    }

    /// Whether it stores the identity of the data directory when none is stored. A reader never does.
    pub const fn stores_identity(self) -> bool {
        !matches!(self, Self::Reader)
    }

    /// What it means that a lock of [`Claim::locks`] is refused.
    pub(super) const fn refusal(lock: Lock) -> Refusal {
        match lock {
            Lock::Profile => Refusal::ProfilesMix,
            Lock::Worker => Refusal::WorkerOwned,
            Lock::Writer => Refusal::WriterOwned,
            _ => Refusal::Maintenance,
        }
    }
}
