//! Paths and their revisions, for reading (docs/spec/http-api.md 2.6 and 2.8).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, Uri};

use super::artifacts::{LARGEST_PAGE, PAGE};
use super::extract::Inside;
use crate::artifact::Wanted;
use crate::catalog::assets::{self, Revision};
use crate::catalog::within;
use crate::http::app::App;
use crate::http::content::{self, Ask};
use crate::http::options::Options;
use crate::http::problem::Problem;
use crate::http::respond;
use crate::model::name::{AssetPath, LONGEST_PATH};
use crate::model::number::canonical;
use crate::wire::artifact::{Asset, AssetRevision, Page};

/// Most paths of a list that has no pages.
const LONGEST_LIST: u32 = 1000;
/// Revisions of a page of history.
const HISTORY_PAGE: u32 = 50;

/// The bytes that a path holds now.
pub(super) async fn content(
    State(app): State<Arc<App>>,
    inside: Inside,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let path = path(&Options::strict(uri.query(), &["path"])?)?;
    let ask = Ask {
        caller: &inside.caller,
        repository: &inside.repository,
        wanted: Wanted::Path(path),
        method: &method,
        headers: &headers,
        names_artifact: false,
    };
    content::serve(&app, ask).await
}

/// The current revision of a path.
pub(super) async fn one(State(app): State<Arc<App>>, inside: Inside, uri: Uri) -> Result<Response, Problem> {
    let repository = inside.may_read()?;
    let path = path(&Options::lenient(uri.query(), &["path"])?)?;
    let mut db = app.catalog.connection().await?;
    let asset = within(assets::find(&mut db, &repository, &path))
        .await?
        .ok_or_else(Problem::absent)?;
    Ok(respond::json(StatusCode::OK, &wire(asset)))
}

/// Paths with a prefix, all at once, at most 1000.
pub(super) async fn list(State(app): State<Arc<App>>, inside: Inside, uri: Uri) -> Result<Response, Problem> {
    let repository = inside.may_read()?;
    let options = Options::lenient(uri.query(), &["prefix"])?;
    let mut db = app.catalog.connection().await?;
    let rows = within(assets::page(
        &mut db,
        &repository,
        prefix(&options)?,
        None,
        LONGEST_LIST,
    ))
    .await?;
    Ok(respond::json(
        StatusCode::OK,
        &serde_json::json!({ "items": rows.into_iter().map(wire).collect::<Vec<_>>() }),
    ))
}

/// Paths with a prefix, page by page.
pub(super) async fn page(State(app): State<Arc<App>>, inside: Inside, uri: Uri) -> Result<Response, Problem> {
    let repository = inside.may_read()?;
    let options = Options::strict(uri.query(), &["prefix", "after", "limit"])?;
    let limit = options.limit(PAGE, LARGEST_PAGE)?;
    let after: Option<AssetPath> = options.value("after")?;
    let mut db = app.catalog.connection().await?;
    let after = after.as_ref().map(AssetPath::as_str);
    let rows = within(assets::page(&mut db, &repository, prefix(&options)?, after, limit)).await?;
    let next = (rows.len() == limit as usize)
        .then(|| rows.last().map(|last| last.path.to_string()))
        .flatten();
    Ok(respond::json(
        StatusCode::OK,
        &Page {
            items: rows.into_iter().map(wire).collect(),
            next,
        },
    ))
}

/// Revisions of a path, newest first.
pub(super) async fn history(State(app): State<Arc<App>>, inside: Inside, uri: Uri) -> Result<Response, Problem> {
    let repository = inside.may_read()?;
    let options = Options::lenient(uri.query(), &["path", "before"])?;
    let path = path(&options)?;
    let before = options.text("before").map(|text| number("before", text)).transpose()?;
    let mut db = app.catalog.connection().await?;
    let rows = within(assets::history(&mut db, &repository, &path, before, HISTORY_PAGE)).await?;
    let rows = rows.ok_or_else(Problem::absent)?;
    let full = rows.len() == HISTORY_PAGE as usize;
    let next = full
        .then(|| rows.last().map(|last| last.revision.to_string()))
        .flatten();
    Ok(respond::json(
        StatusCode::OK,
        &Page {
            items: rows.into_iter().map(|row| wire_revision(&path, row)).collect(),
            next,
        },
    ))
}

/// One revision of a path.
pub(super) async fn revision(State(app): State<Arc<App>>, inside: Inside, uri: Uri) -> Result<Response, Problem> {
    let repository = inside.may_read()?;
    let options = Options::lenient(uri.query(), &["path", "revision"])?;
    let path = path(&options)?;
    let revision = number("revision", &options.required::<String>("revision")?)?;
    let mut db = app.catalog.connection().await?;
    let row = within(assets::revision(&mut db, &repository, &path, revision))
        .await?
        .ok_or_else(Problem::absent)?;
    Ok(respond::json(StatusCode::OK, &wire_revision(&path, row)))
}

fn path(options: &Options) -> Result<AssetPath, Problem> {
    options.required("path")
}

fn prefix(options: &Options) -> Result<&str, Problem> {
    let prefix = options.text("prefix").unwrap_or_default();
    // PostgreSQL's text holds no NUL.
    if prefix.chars().nth(LONGEST_PATH).is_none() && !prefix.contains('\0') {
        Ok(prefix)
    } else {
        Err(Problem::invalid(
            "prefix",
            "length",
            "a prefix has at most 1024 characters",
        ))
    }
}

fn number(name: &'static str, text: &str) -> Result<i32, Problem> {
    let number = canonical(text).filter(|number| *number > 0);
    number.ok_or_else(|| Problem::invalid(name, "format", format!("{name} is a whole number from 1")))
}

fn wire(asset: assets::Asset) -> Asset {
    Asset {
        path: asset.path,
        revision: asset.revision,
        artifact_id: asset.artifact,
    }
}

fn wire_revision(path: &AssetPath, row: Revision) -> AssetRevision {
    AssetRevision {
        path: path.clone(),
        revision: row.revision,
        artifact_id: row.artifact,
        created_at: row.created_at,
        created_by: row.created_by,
    }
}
