//! The dedicated sessions outside the pool, which anchor this process in the installation. From a saturated pool a
//! renewal could come too late and knock out a busy process (docs/spec/leases.md 5.4).

mod claim;
mod lease;
mod ownership;

pub use claim::Claim;
pub use lease::LeaseSession;
pub use ownership::{Backend, OwnershipSession};
