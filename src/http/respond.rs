//! Plain answers.

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// A JSON answer with its length, which HEAD must show too.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    // The wire types have string keys and no fallible serializers, so this can't fail.
    let body = serde_json::to_vec(value).unwrap_or_default();
    text(status, "application/json", body)
}

/// An answer of bytes that lie in memory.
pub(super) fn text(status: StatusCode, content_type: &'static str, body: impl Into<bytes::Bytes>) -> Response {
    let body = body.into();
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
}
