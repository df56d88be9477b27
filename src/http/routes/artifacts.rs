//! Artifacts by id (docs/spec/http-api.md 2.6 and 2.8).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, Uri};

use super::extract::{Id, Inside};
use crate::artifact::Wanted;
use crate::catalog::artifacts::{self, Artifact};
use crate::catalog::within;
use crate::http::app::App;
use crate::http::content::{self, Ask};
use crate::http::options::Options;
use crate::http::problem::Problem;
use crate::http::respond;
use crate::wire::artifact::{Descriptor, Page, Upload};

/// Most rows of a page.
pub(super) const LARGEST_PAGE: u32 = 100;
/// Rows of a page when the request does not say.
pub(super) const PAGE: u32 = 50;

/// Published artifacts in the order of their ids.
pub(super) async fn list(State(app): State<Arc<App>>, inside: Inside, uri: Uri) -> Result<Response, Problem> {
    let repository = inside.may_read()?;
    let options = Options::lenient(uri.query(), &["after", "limit"])?;
    let limit = options.limit(PAGE, LARGEST_PAGE)?;
    let after = options.value("after")?;
    let mut db = app.catalog.connection().await?;
    let rows = within(artifacts::list(&mut db, &repository, after, limit)).await?;
    let next = (rows.len() == limit as usize)
        .then(|| rows.last().map(|last| last.content.id.to_string()))
        .flatten();
    Ok(respond::json(
        StatusCode::OK,
        &Page {
            items: rows.into_iter().map(upload).collect(),
            next,
        },
    ))
}

/// One published artifact.
pub(super) async fn one(State(app): State<Arc<App>>, inside: Inside, Id(id): Id) -> Result<Response, Problem> {
    let repository = inside.may_read()?;
    let mut db = app.catalog.connection().await?;
    let artifact = within(artifacts::find(&mut db, &repository, id))
        .await?
        .ok_or_else(Problem::absent)?;
    Ok(respond::json(StatusCode::OK, &upload(artifact)))
}

/// Its bytes.
pub(super) async fn content(
    State(app): State<Arc<App>>,
    inside: Inside,
    Id(id): Id,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ask = Ask {
        caller: &inside.caller,
        repository: &inside.repository,
        wanted: Wanted::Artifact(id),
        method: &method,
        headers: &headers,
        names_artifact: false,
    };
    content::serve(&app, ask).await
}

fn upload(artifact: Artifact) -> Upload {
    Upload {
        id: artifact.content.id,
        repository: artifact.repository,
        status: "available".to_owned(),
        created_at: artifact.created_at,
        expires_at: artifact.expires_at,
        descriptor: Descriptor {
            name: artifact.content.name,
            size: artifact.content.size,
            sha256: artifact.content.digest,
            labels: artifact.labels,
            metadata: artifact.metadata,
        },
    }
}
