//! Who one is, and what this server can do (docs/spec/http-api.md 2.9 and 2.12).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::extract::Who;
use crate::http::app::App;
use crate::http::respond;
use crate::model::principal::Permission;
use crate::wire::identity::{Capabilities, Grant, Limits, Me};

/// What is not there yet is announced as false, so that clients can ask instead of trying.
const FEATURES: [(&str, bool); 11] = [
    ("apiSurfaces", false),
    ("artifactDeletion", false),
    ("assetPagination", true),
    ("delegatedServiceAdministration", false),
    ("managedServiceKeys", false),
    ("onlineGarbageCollection", false),
    ("operationDiscovery", false),
    ("repositoryDiscovery", false),
    ("repositoryPermissions", true),
    ("retentionPreview", false),
    ("selfRegistration", false),
];

/// Who the credential makes one.
pub(super) async fn me(Who(caller): Who) -> Response {
    let permission = |permission: &Permission| match permission {
        Permission::Read => "read".to_owned(),
        Permission::Write => "write".to_owned(),
    };
    let grants = caller.grants.iter().map(|grant| Grant {
        repository: grant.repository.to_string(),
        permissions: grant.permissions.iter().map(permission).collect(),
    });
    respond::json(
        StatusCode::OK,
        &Me {
            id: caller.principal.to_string(),
            administrator: caller.administrator,
            credential: "file-key".to_owned(),
            grants: grants.collect(),
        },
    )
}

/// What this server can do.
pub(super) async fn capabilities(State(app): State<Arc<App>>) -> Response {
    respond::json(
        StatusCode::OK,
        &Capabilities {
            api_versions: vec!["v1".to_owned()],
            gateway_role: app.member.role.as_str().to_owned(),
            features: FEATURES.map(|(name, there)| (name.to_owned(), there)).into(),
            limits: Limits {
                max_object_bytes: app.max_object.to_string(),
                max_page_size: super::artifacts::LARGEST_PAGE,
            },
        },
    )
}
