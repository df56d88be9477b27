//! Why bytes may not flow.

use crate::model::failure::{Classify, Kind};

/// A refusal of the governor (docs/spec/bandwidth.md 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Every waiting place is taken. Only a stream that has not sent anything yet hears this.
    #[error("too many transfers wait for their turn")]
    Busy,
    /// The process may not serve any more. It holds for ever.
    #[error("this process may not send any more")]
    Unavailable,
    /// Nobody registered this principal.
    #[error("the principal may not transfer")]
    UnknownPrincipal,
    /// The table of principals is full.
    #[error("too many principals")]
    TooManyPrincipals,
}

impl Classify for Error {
    fn kind(&self) -> Kind {
        match self {
            Self::Busy => Kind::Busy,
            Self::Unavailable => Kind::Unavailable,
            Self::UnknownPrincipal => Kind::Forbidden,
            Self::TooManyPrincipals => Kind::CapacityExceeded,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        (*self == Self::TooManyPrincipals).then_some("transfer_limit")
    }
}
