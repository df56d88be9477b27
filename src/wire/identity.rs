//! Who one is, and what a server can do (docs/spec/http-api.md 2.9 and 2.12).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Answer to `GET /api/v1/auth/me`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Me {
    /// The principal.
    pub id: String,
    /// Whether it administers.
    pub administrator: bool,
    /// `file-key`; later also `session`, `personal-token` and `service-key`.
    pub credential: String,
    /// Rights, sorted by repository.
    pub grants: Vec<Grant>,
}

/// Rights in one repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// Its name.
    pub repository: String,
    /// `read`, `write`.
    pub permissions: Vec<String>,
}

/// Answer to `GET /api/v1/capabilities`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Versions of the API.
    pub api_versions: Vec<String>,
    /// `api` or `reader`.
    pub gateway_role: String,
    /// What is built in.
    pub features: BTreeMap<String, bool>,
    /// Largest sizes.
    pub limits: Limits,
}

/// Largest sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Largest object in bytes, as a decimal.
    pub max_object_bytes: String,
    /// Most rows of a page.
    pub max_page_size: u32,
}
