//! Why a process did not get its slot or the storage at start.

use crate::catalog;
use crate::catalog::policy::BadPolicy;
use crate::model::failure::{Classify, Kind};
use crate::model::member::Slot;

/// A start that failed. A lease or an ownership never restarts: the process must be started anew.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The slot is not one of the policy's.
    #[error(transparent)]
    Policy(#[from] BadPolicy),
    /// The database failed, did not answer in time, or refused.
    #[error(transparent)]
    Catalog(#[from] catalog::error::Error),
    /// Somebody renews the slot: a live process has it.
    #[error("slot {0} is held by a running process")]
    Held(Slot),
    /// The slot stayed reserved for the whole time that a start waits.
    #[error("slot {0} is still reserved")]
    Reserved(Slot),
    /// All slots of readers are taken.
    #[error("slots 1 to {0} are all taken: ARKVORY_GATEWAY_SLOTS allows no further reader")]
    AllTaken(u8),
    /// The answer came so late that it was worth nothing.
    #[error("the database answered too late")]
    TooLate,
}

impl Classify for Error {
    fn kind(&self) -> Kind {
        match self {
            Self::Policy(_) => Kind::InvalidInput,
            Self::Catalog(error) => error.kind(),
            Self::Held(_) | Self::Reserved(_) | Self::AllTaken(_) => Kind::Busy,
            Self::TooLate => Kind::Unavailable,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Catalog(error) => error.reason(),
            Self::Policy(_) => Some("validation"),
            _ => None,
        }
    }
}
