//! Files by path (docs/spec/http-api.md 2.6 and 2.7).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, HeaderName, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use super::extract::Inside;
use crate::artifact::{Error, Publication, Wanted};
use crate::http::app::App;
use crate::http::content::{self, Ask};
use crate::http::problem::Problem;
use crate::http::respond;
use crate::model::digest::Digest;
use crate::model::name::AssetPath;
use crate::model::number::canonical;
use crate::model::principal::Permission;
use crate::telemetry::metrics::Direction;
use crate::telemetry::request;
use crate::wire::artifact::{RawArtifact, RawPut};

const X_CHECKSUM_SHA256: HeaderName = HeaderName::from_static("x-checksum-sha256");

/// The bytes that a path holds now.
pub(super) async fn content(
    State(app): State<Arc<App>>,
    inside: Inside,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let ask = Ask {
        caller: &inside.caller,
        repository: &inside.repository,
        wanted: Wanted::Path(path(&uri)?),
        method: &method,
        headers: &headers,
        names_artifact: true,
    };
    content::serve(&app, ask).await
}

/// Publishes a file at a path.
pub(super) async fn put(
    State(app): State<Arc<App>>,
    inside: Inside,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Result<Response, Problem> {
    // A refused body is not read, so the connection ends with the answer.
    publish(&app, inside, &headers, &uri, body)
        .await
        .map_err(Problem::closing)
}

async fn publish(app: &App, inside: Inside, headers: &HeaderMap, uri: &Uri, body: Body) -> Result<Response, Problem> {
    inside.caller.require(Permission::Write, &inside.repository)?;
    let path = path(uri)?;
    if headers.contains_key(CONTENT_RANGE) {
        // A part would become the whole file (RFC 9110, 14.4).
        return Err(Problem::invalid(
            "Content-Range",
            "invalid",
            "a single PUT can't be resumed: send the whole file",
        ));
    }
    let publication = Publication {
        repository: inside.repository,
        path: path.clone(),
        owner: inside.caller.principal.clone(),
        digest: declared_digest(headers)?,
        length: declared_length(headers)?,
        only_new: only_new(headers)?,
    };
    let publish = app.publish.clone().ok_or_else(Problem::read_only)?;
    let body = body.into_data_stream();
    let active = app.metrics.transfer(Direction::Upload);
    let request_id = request::current().unwrap_or_default();
    let work = app.tasks.spawn_detached_work("publish", async move {
        let _active = active;
        request::on_behalf_of(request_id, Box::pin(publish.run(publication, body))).await
    });
    let published = match work.await.map_err(|_| Problem::defect())? {
        // The client's doing, and nothing for the operator to look at.
        Err(error @ Error::Interrupted(_)) => return Err(Problem::from_error(&error)),
        outcome => outcome?,
    };

    let status = if published.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let current = published.current;
    let mut response = respond::json(
        status,
        &RawPut {
            path: path.to_string(),
            revision: current.revision,
            created: published.created,
            artifact: RawArtifact {
                id: current.artifact.to_string(),
                size: current.size.to_string(),
                sha256: current.digest.to_string(),
            },
        },
    );
    if !published.body_read {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// The path behind `/raw/`, taken from the request itself: decoded segment by segment.
fn path(uri: &Uri) -> Result<AssetPath, Problem> {
    let encoded = uri.path().splitn(7, '/').nth(6).unwrap_or_default();
    AssetPath::from_encoded(encoded).map_err(|error| Problem::invalid("path", "format", error.to_string()))
}

/// The value of a header that may stand in a request once.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Problem::invalid(
            name.as_str(),
            "invalid",
            "a header stands in the request twice",
        )),
    }
}

fn declared_digest(headers: &HeaderMap) -> Result<Option<Digest>, Problem> {
    let Some(value) = once(headers, &X_CHECKSUM_SHA256)? else {
        return Ok(None);
    };
    let digest = value.to_str().ok().and_then(|text| Digest::parse_any_case(text).ok());
    let malformed = || {
        Problem::invalid(
            "X-Checksum-Sha256",
            "format",
            "X-Checksum-Sha256 has 64 hexadecimal digits",
        )
    };
    digest.map(Some).ok_or_else(malformed)
}

fn declared_length(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = once(headers, &CONTENT_LENGTH)? else {
        return Ok(None);
    };
    let length = value.to_str().ok().and_then(canonical);
    length
        .map(Some)
        .ok_or_else(|| Problem::invalid("Content-Length", "format", "Content-Length is a decimal"))
}

fn only_new(headers: &HeaderMap) -> Result<bool, Problem> {
    match once(headers, &IF_NONE_MATCH)? {
        None => Ok(false),
        Some(value) if value.as_bytes() == b"*" => Ok(true),
        Some(_) => Err(Problem::invalid(
            "If-None-Match",
            "invalid",
            "If-None-Match can only be * here",
        )),
    }
}
