//! What the routes of a process share.

use std::sync::Arc;

use super::health::Health;
use crate::artifact::{Fetch, Publish};
use crate::auth::KeyRing;
use crate::budget::meter::Meter;
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::model::member::{Role, Slot};
use crate::model::trust::Trust;
use crate::storage::Volume;
use crate::supervise::Tasks;
use crate::telemetry::metrics::{Facts, Metrics};

/// What this process is to its clients.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Writer or reader.
    pub role: Role,
    /// Its place in the gateway profile; `None` in standalone.
    pub place: Option<Place>,
}

/// A place in the gateway profile.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The slot that it holds.
    pub slot: Slot,
    /// Slots of the installation.
    pub slots: u8,
}

/// The process, as its routes see it.
pub struct App {
    /// Who answers.
    pub member: Member,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Whether it may serve.
    pub trust: Trust,
    /// Runs work that outlives its request; knows whether the process is stopping.
    pub tasks: Tasks,
    /// Who may do what.
    pub keys: KeyRing,
    /// Proxies whose word about the client is taken.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Whether requests are logged.
    pub access_log: bool,
    /// Counters.
    pub metrics: Metrics,
    /// Reads values for the metrics that live elsewhere.
    pub facts: Box<dyn Fn() -> Facts + Send + Sync>,
    /// The catalog.
    pub catalog: Catalog,
    /// Bytes that one object may have.
    pub max_object: u64,
    /// The volume.
    pub volume: Volume,
    /// The download budget.
    pub downloads: Meter,
    /// Opens published bytes.
    pub fetch: Fetch,
    /// Publishes; the writer has it.
    pub publish: Option<Arc<Publish>>,
    /// Judges the process.
    pub health: Health,
}

impl App {
    /// Whether the process is stopping.
    pub(super) fn is_draining(&self) -> bool {
        self.tasks.lifecycle().is_draining()
    }
}
