//! Health (docs/spec/http-api.md 2.4, docs/spec/health.md).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::http::app::App;
use crate::http::problem::{Problem, RETRY_AFTER_SECONDS};
use crate::http::respond;
use crate::model::member::Role;
use crate::telemetry::metrics::CONTENT_TYPE;
use crate::wire::health::{Bandwidth, Direction, Ready, SharedDownloads, Transfers};

/// The process answers.
pub(super) async fn live() -> Response {
    respond::json(StatusCode::OK, &json!({"status": "ok"}))
}

/// For balancers: should new requests come here?
pub(super) async fn status(State(app): State<Arc<App>>) -> Response {
    let status = if app.is_draining() {
        "draining"
    } else if app.health.is_ready().await {
        return respond::json(StatusCode::OK, &json!({"status": "ready"}));
    } else {
        "unavailable"
    };
    let mut response = respond::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": status }));
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
    response
}

/// For operators: what is this process, and how is it doing?
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    if app.is_draining() {
        return Err(Problem::draining());
    }
    if !app.health.is_ready().await {
        return Err(Problem::lost());
    }
    let downloads = app.downloads.snapshot();
    let bandwidth = Bandwidth {
        bytes_per_second: downloads.bytes_per_second,
        per_principal_bytes_per_second: downloads.per_principal_bytes_per_second,
        burst_bytes: downloads.burst_bytes,
        per_principal_burst_bytes: downloads.per_principal_burst_bytes,
        waiting: downloads.waiting as u64,
        granted_bytes: downloads.granted_bytes.to_string(),
    };
    let ready = Ready {
        status: "ready".to_owned(),
        writable: app.member.role == Role::Api
            && app.publish.as_ref().is_some_and(|publish| publish.right.allowed())
            && app.volume.writable(),
        role: app.member.role.as_str().to_owned(),
        shared_downloads: app.member.place.map(|place| SharedDownloads {
            slot: place.slot.number(),
            slots: place.slots,
            active: app.trust.holds(),
            lease_seconds: 10,
        }),
        transfers: Transfers {
            downloads: Direction { bandwidth },
        },
    };
    Ok(respond::json(StatusCode::OK, &ready))
}

/// For Prometheus.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = app.metrics.render(&(app.facts)());
    respond::text(StatusCode::OK, CONTENT_TYPE, text)
}
