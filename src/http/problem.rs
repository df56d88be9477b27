//! Errors as answers: the only place that chooses a status code (docs/spec/errors.md 3.2).

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONNECTION, CONTENT_RANGE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};

use super::respond;
use crate::model::failure::{Classify, Kind};
use crate::wire;

/// Seconds that a client is told to wait when there is no better estimate (docs/spec/errors.md 3.1).
pub(super) const RETRY_AFTER_SECONDS: u32 = 2;

/// A refusal on its way to the client. It becomes a body at the front door, which knows the request's id.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    kind: Kind,
    reason: Option<&'static str>,
    message: Cow<'static, str>,
    details: Vec<wire::problem::Detail>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    fn new(
        status: StatusCode,
        kind: Kind,
        reason: Option<&'static str>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let mut headers = Vec::new();
        if status == StatusCode::UNAUTHORIZED {
            headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.push((RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS)));
        }
        Self {
            status,
            kind,
            reason,
            message: message.into(),
            details: Vec::new(),
            headers,
        }
    }

    /// The answer to an error from below. The inner cause goes to the log, never to the client.
    pub(super) fn from_error<E: Classify + 'static>(error: &E) -> Self {
        let (kind, reason) = (error.kind(), error.reason());
        let (status, reason) = match (kind, reason) {
            (Kind::InvalidInput, Some("body_too_large")) => (StatusCode::PAYLOAD_TOO_LARGE, reason),
            (Kind::InvalidInput, _) => (StatusCode::BAD_REQUEST, reason.or(Some("validation"))),
            (Kind::ReadOnly, _) => (StatusCode::METHOD_NOT_ALLOWED, reason),
            (Kind::Unauthorized, _) => (StatusCode::UNAUTHORIZED, reason),
            (Kind::Forbidden, _) => (StatusCode::FORBIDDEN, reason),
            (Kind::NotFound, _) => (StatusCode::NOT_FOUND, reason),
            (Kind::Conflict, _) => (StatusCode::CONFLICT, reason),
            (Kind::IntegrityMismatch, _) => (StatusCode::UNPROCESSABLE_ENTITY, reason),
            (Kind::RateLimited, _) => (StatusCode::TOO_MANY_REQUESTS, reason),
            (Kind::Busy | Kind::Unavailable, _) => (StatusCode::SERVICE_UNAVAILABLE, reason),
            (Kind::CapacityExceeded, _) => (StatusCode::INSUFFICIENT_STORAGE, reason),
            (Kind::Internal, _) => (StatusCode::INTERNAL_SERVER_ERROR, reason),
        };
        let message = match kind {
            // These speak of the inside.
            Kind::Unavailable => Cow::from("something that is needed for this is away; try again"),
            Kind::Internal => Cow::from("a defect of the server; the log has it under the request's id"),
            _ => Cow::from(error.to_string()),
        };
        Self::new(status, kind, reason, message)
    }

    /// A value of the request is not acceptable; `field` names it.
    pub(super) fn invalid(field: &str, problem: &str, message: impl Into<Cow<'static, str>>) -> Self {
        let mut invalid = Self::new(StatusCode::BAD_REQUEST, Kind::InvalidInput, Some("validation"), message);
        invalid.details.push(wire::problem::Detail {
            field: field.to_owned(),
            problem: problem.to_owned(),
        });
        invalid
    }

    /// No such object, or not for this caller's eyes.
    pub(super) fn absent() -> Self {
        Self::new(StatusCode::NOT_FOUND, Kind::NotFound, None, "there is no such object")
    }

    /// No such operation.
    pub(super) fn no_route() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            Kind::NotFound,
            Some("route_not_found"),
            "there is no such operation",
        )
    }

    /// The path is known, the method is not one of `allowed`.
    pub(super) fn wrong_method(allowed: &'static str) -> Self {
        let problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Kind::InvalidInput,
            Some("method_not_allowed"),
            "this operation does not exist with this method",
        );
        problem.with_header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// A change was asked of a reader.
    pub(super) fn read_only() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Kind::ReadOnly,
            None,
            "this process only reads; send changes to the writer",
        )
        .with_header(ALLOW, HeaderValue::from_static("GET, HEAD"))
    }

    /// The range lies outside of the file.
    pub(super) fn unsatisfiable(size: u64) -> Self {
        let problem = Self::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            Kind::InvalidInput,
            Some("range_not_satisfiable"),
            "the range lies behind the end of the file",
        );
        let range = HeaderValue::try_from(format!("bytes */{size}")).unwrap_or(HeaderValue::from_static("bytes */*"));
        problem.with_header(CONTENT_RANGE, range)
    }

    /// The process is going down.
    pub(super) fn draining() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Kind::Busy,
            None,
            "this process is stopping; ask another one",
        )
        .closing()
    }

    /// The process has lost what it serves from.
    pub(super) fn lost() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Kind::Unavailable,
            None,
            "this process has lost its place; ask another one",
        )
    }

    /// A handler panicked.
    pub(super) fn defect() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Internal,
            None,
            "a defect of the server; the log has it under the request's id",
        )
    }

    /// Ends the connection after this answer, as an unread body can't be drained (docs/spec/http-api.md 2.5).
    #[must_use]
    pub(super) fn closing(self) -> Self {
        self.with_header(CONNECTION, HeaderValue::from_static("close"))
    }

    /// The same if the request has a body, of which nothing was read.
    #[must_use]
    pub(super) fn closing_unread(self, request: &axum::extract::Request) -> Self {
        use http_body::Body as _;
        if request.body().is_end_stream() {
            self
        } else {
            self.closing()
        }
    }

    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The whole answer. `request_id` equals the header `X-Request-Id`.
    pub(super) fn render(self, request_id: &str) -> Response {
        let retry_after_seconds = self
            .headers
            .iter()
            .any(|(name, _)| name == RETRY_AFTER)
            .then_some(RETRY_AFTER_SECONDS);
        let mut response = respond::json(
            self.status,
            &wire::problem::Problem {
                code: self.kind.code().to_owned(),
                message: self.message.into_owned(),
                request_id: request_id.to_owned(),
                reason: self.reason.map(str::to_owned),
                details: self.details,
                retry_after_seconds,
            },
        );
        response.headers_mut().extend(self.headers);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl<E: Classify + 'static> From<E> for Problem {
    fn from(error: E) -> Self {
        log_cause(&error);
        Self::from_error(&error)
    }
}

/// Writes down what the client is not told. Only here: an error is logged once, at the door.
fn log_cause(error: &(impl Classify + 'static)) {
    match error.kind() {
        Kind::Internal => tracing::error!(
            code = "http.defect",
            errorName = error.name(),
            errno = error.errno(),
            sqlstate = error.sqlstate(),
        ),
        Kind::Unavailable => tracing::warn!(
            code = "http.unavailable",
            errorName = error.name(),
            errno = error.errno(),
            sqlstate = error.sqlstate(),
        ),
        _ => {}
    }
}
