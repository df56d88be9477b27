//! Use cases: what happens on a fetch, on a publish, and after a crash in the middle of one.

mod error;
mod fetch;
mod publish;
mod recover;

pub use error::{Error, Interruption};
pub use fetch::{Fetch, Opened, Wanted};
pub use publish::{Publication, Publish, Published};
pub use recover::recover;

use crate::lease::Changes;
use crate::model::trust::Trust;

/// Whether this process may change anything: its trust stands and the locks of the storage's owner are held at this
/// moment (docs/spec/leases.md 5.5). Asked when a change starts and right before it is committed.
#[derive(Clone)]
pub struct ChangeRight {
    trust: Trust,
    changes: Changes,
}

impl ChangeRight {
    /// A right that follows both.
    pub fn new(trust: Trust, changes: Changes) -> Self {
        Self { trust, changes }
    }

    /// Whether changes are allowed now.
    pub fn allowed(&self) -> bool {
        self.changes.allowed() && self.trust.holds()
    }

    /// Passes while changes are allowed.
    fn check(&self) -> Result<(), Error> {
        if self.allowed() { Ok(()) } else { Err(Error::NotOwner) }
    }
}
