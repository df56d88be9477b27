//! Readiness (docs/spec/health.md 8.1).

use serde::{Deserialize, Serialize};

/// Body of `GET /health/ready`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// Always `ready`.
    pub status: String,
    /// Whether this process takes changes now.
    pub writable: bool,
    /// `api` or `reader`.
    pub role: String,
    /// The gateway profile; `null` in standalone.
    pub shared_downloads: Option<SharedDownloads>,
    /// Transfers by direction.
    pub transfers: Transfers,
}

/// This process's place in the gateway profile.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedDownloads {
    /// Its slot.
    pub slot: u8,
    /// Slots of the installation.
    pub slots: u8,
    /// Whether its lease stands.
    pub active: bool,
    /// Length of a reservation in the database.
    pub lease_seconds: u32,
}

/// Transfers by direction. Uploads are not limited yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transfers {
    /// Bytes sent to clients.
    pub downloads: Direction,
}

/// One direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Direction {
    /// Its governor.
    pub bandwidth: Bandwidth,
}

/// A governor's limits and state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bandwidth {
    /// Limit of this process in bytes a second; 0 = none.
    pub bytes_per_second: u64,
    /// Limit of one principal in this process; 0 = none.
    pub per_principal_bytes_per_second: u64,
    /// Bytes that may go at once after a pause.
    pub burst_bytes: u64,
    /// The same for one principal.
    pub per_principal_burst_bytes: u64,
    /// Quanta that wait.
    pub waiting: u64,
    /// Bytes granted since the start, as a decimal.
    pub granted_bytes: String,
}
