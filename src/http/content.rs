//! The bytes of an artifact as an answer (docs/spec/http-api.md 2.6).

use axum::body::Body;
use axum::response::Response;
use http::header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tracing::Instrument as _;

use super::app::App;
use super::body::Sending;
use super::conditional::{self, Decision};
use super::disposition;
use super::problem::Problem;
use crate::artifact::{Opened, Wanted};
use crate::auth::Caller;
use crate::model::name::Repository;
use crate::model::principal::Permission;
use crate::model::range::ByteRange;
use crate::telemetry::SPANS;

pub(super) const X_ARKVORY_ARTIFACT_ID: HeaderName = HeaderName::from_static("x-arkvory-artifact-id");

/// A request for bytes.
pub(super) struct Ask<'a> {
    pub(super) caller: &'a Caller,
    pub(super) repository: &'a Repository,
    pub(super) wanted: Wanted,
    pub(super) method: &'a Method,
    pub(super) headers: &'a HeaderMap,
    /// Whether the answer names the artifact.
    pub(super) names_artifact: bool,
}

/// Answers a request for bytes.
pub(super) async fn serve(app: &App, ask: Ask<'_>) -> Result<Response, Problem> {
    ask.caller.require(Permission::Read, ask.repository)?;
    let look_up = tracing::info_span!(target: SPANS, "look-up", otel.kind = "internal");
    let opened = app
        .fetch
        .open(ask.repository, &ask.wanted)
        .instrument(look_up)
        .await?
        .ok_or_else(Problem::absent)?;
    let (size, digest) = (opened.content.size, opened.content.digest);
    match conditional::decide(ask.method, ask.headers, &digest, size) {
        Decision::Unsatisfiable => Err(Problem::unsatisfiable(size)),
        Decision::NotModified => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
                .headers_mut()
                .insert(ETAG, text(conditional::entity_tag(&digest)));
            if ask.method == Method::HEAD {
                // Otherwise axum says 0, as of the body that there is not.
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(size));
            }
            Ok(response)
        }
        Decision::Whole => answer(app, &ask, opened, StatusCode::OK, ByteRange::whole(size)).await,
        Decision::Part(range) => answer(app, &ask, opened, StatusCode::PARTIAL_CONTENT, range).await,
    }
}

async fn answer(
    app: &App,
    ask: &Ask<'_>,
    opened: Opened,
    status: StatusCode,
    range: ByteRange,
) -> Result<Response, Problem> {
    let content = opened.content;
    let body = if ask.method == Method::HEAD {
        Body::empty()
    } else {
        let budget = app.downloads.stream(&ask.caller.principal)?;
        Body::new(Sending::begin(&opened.blob, range, budget, app.metrics.clone()).await?)
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.len()));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, disposition::attachment(content.name.as_str()));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(ETAG, text(conditional::entity_tag(&content.digest)));
    if status == StatusCode::PARTIAL_CONTENT {
        headers.insert(CONTENT_RANGE, text(format!("bytes {range}/{}", content.size)));
    }
    if ask.names_artifact {
        headers.insert(X_ARKVORY_ARTIFACT_ID, text(content.id.to_string()));
    }
    Ok(response)
}

/// Header values made here are ASCII without control characters.
fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}
