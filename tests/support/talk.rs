//! Requests, and what every answer must keep to whatever it says (docs/spec/http-api.md 2.1, docs/spec/errors.md 3.1).

use std::collections::BTreeSet;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::process::Slot;
use super::site::key;

/// Codes with their statuses and reasons (docs/spec/errors.md 3.2), as far as routes exist. An empty reason is none.
const CODES: [(&str, u16, &[&str]); 16] = [
    ("invalid_input", 400, &["validation", "malformed_json"]),
    ("invalid_input", 405, &["method_not_allowed"]),
    ("invalid_input", 413, &["body_too_large"]),
    ("invalid_input", 415, &["unsupported_media_type"]),
    ("invalid_input", 416, &["range_not_satisfiable"]),
    ("read_only", 405, &[""]),
    ("unauthorized", 401, &["credential_missing", "credential_invalid"]),
    ("forbidden", 403, &["permission_missing"]),
    ("not_found", 404, &["route_not_found", ""]),
    ("conflict", 409, &["revision_mismatch", "already_exists"]),
    ("integrity_mismatch", 422, &[""]),
    ("rate_limited", 429, &["login_attempts"]),
    ("busy", 503, &["request_limit", ""]),
    ("unavailable", 503, &[""]),
    ("capacity_exceeded", 507, &["storage_full", "catalog_limit"]),
    ("internal", 500, &[""]),
];

/// Text with every character percent-encoded that could mean anything in a URL.
pub(crate) fn escaped(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The same for each segment of a path.
pub(crate) fn escaped_path(path: &str) -> String {
    path.split('/').map(escaped).collect::<Vec<_>>().join("/")
}

/// A request about to be sent.
pub(crate) struct Ask {
    builder: reqwest::RequestBuilder,
    slot: Slot,
}

impl Ask {
    pub(crate) fn new(builder: reqwest::RequestBuilder, slot: Slot) -> Self {
        Self { builder, slot }
    }

    /// Adds the credential.
    pub(crate) fn key(self, secret: &str) -> Self {
        self.header("Authorization", &format!("Bearer {secret}"))
    }

    /// Adds a header line.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    /// Sets the body.
    pub(crate) fn body(mut self, body: impl Into<reqwest::Body>) -> Self {
        self.builder = self.builder.body(body);
        self
    }

    /// Sets a body of unknown length.
    pub(crate) fn chunked(self, pieces: Vec<Vec<u8>>) -> Self {
        let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
        self.body(reqwest::Body::wrap_stream(futures_util::stream::iter(pieces)))
    }

    /// Sends the request, and returns the answer before its body has come.
    pub(crate) async fn begin(self) -> reqwest::Result<reqwest::Response> {
        self.builder.send().await
    }

    /// Sends the request and takes the whole answer.
    pub(crate) async fn answer(self) -> Answer {
        let (client, request) = self.builder.build_split();
        let request = request.expect("a request");
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client
            .execute(request)
            .await
            .unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response
            .bytes()
            .await
            .unwrap_or_else(|error| panic!("{method} {path}: body of {status}: {error:?}"));
        let answer = Answer { status, headers, body };
        answer.check(method == http::Method::HEAD, &path, self.slot);
        answer
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What an error body says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) reason: String,
    /// Field and problem.
    pub(crate) details: Vec<(String, String)>,
}

impl Answer {
    /// A header that stands in the answer at most once; the empty text if it doesn't.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().expect("a header of ASCII"));
        assert!(values.next().is_none(), "{name} stands twice in {:?}", self.headers);
        value.unwrap_or_default()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    /// The error body.
    pub(crate) fn refused(&self) -> Refused {
        let body = self.json();
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let details = body["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |detail: &Value, name: &str| detail[name].as_str().unwrap().to_owned();
        Refused {
            status: self.status,
            code: text("code"),
            reason: text("reason"),
            details: details
                .iter()
                .map(|detail| (of(detail, "field"), of(detail, "problem")))
                .collect(),
        }
    }

    /// Fails unless this is the refusal with this status, code and reason (empty = none).
    #[track_caller]
    pub(crate) fn expect(&self, status: u16, code: &str, reason: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let refused = self.refused();
        assert_eq!((&*refused.code, &*refused.reason), (code, reason), "{self:?}");
    }

    /// Fails unless this is a 400 whose details name `field`.
    #[track_caller]
    pub(crate) fn expect_invalid(&self, field: &str, problem: &str) {
        self.expect(400, "invalid_input", "validation");
        assert_eq!(
            self.refused().details,
            [(field.to_owned(), problem.to_owned())],
            "{self:?}"
        );
    }

    /// What holds for every answer.
    pub(crate) fn check(&self, head: bool, path: &str, slot: Slot) {
        let id = self.header("x-request-id");
        assert!((8..=128).contains(&id.len()), "{self:?}");
        assert_eq!(self.header("x-content-type-options"), "nosniff", "{self:?}");
        assert_eq!(self.header("cache-control"), "private, no-store", "{self:?}");
        match slot {
            Slot::None => assert_eq!(self.headers.get("x-arkvory-slot"), None, "{self:?}"),
            Slot::Is(slot) => assert_eq!(self.header("x-arkvory-slot"), slot.to_string(), "{self:?}"),
            Slot::Chosen => assert!(
                self.header("x-arkvory-slot")
                    .parse()
                    .is_ok_and(|slot| (1..16).contains(&slot))
            ),
        }
        let retry_after = self.header("retry-after");
        assert_eq!(!retry_after.is_empty(), matches!(self.status, 429 | 503), "{self:?}");
        if self.status == 401 {
            assert_eq!(self.header("www-authenticate"), "Bearer", "{self:?}");
        }
        if head || self.status == 304 {
            assert!(self.body.is_empty(), "{self:?}");
        } else if self.status >= 400 && path != "/health/status" {
            self.check_problem(id, retry_after);
        }
    }

    /// What holds for every error body.
    fn check_problem(&self, id: &str, retry_after: &str) {
        let body = self.json();
        let fields: BTreeSet<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        let known = BTreeSet::from(["code", "message", "requestId", "reason", "details", "retryAfterSeconds"]);
        assert!(fields.is_subset(&known), "{body}");
        assert_eq!(body["requestId"], id, "{body}");
        let message = body["message"].as_str().unwrap();
        assert!((1..=1024).contains(&message.chars().count()), "{body}");
        let refused = self.refused();
        assert_eq!(body.get("reason").is_some(), !refused.reason.is_empty(), "{body}");
        assert!(
            CODES.iter().any(|(code, status, reasons)| {
                (refused.code.as_str(), refused.status) == (*code, *status) && reasons.contains(&&*refused.reason)
            }),
            "not in docs/spec/errors.md 3.2: {} {body}",
            self.status
        );
        match body.get("retryAfterSeconds") {
            None => assert_eq!(retry_after, "", "{body}"),
            Some(seconds) => assert_eq!(seconds.as_u64().unwrap().to_string(), retry_after, "{body}"),
        }
        if let Some(details) = body.get("details") {
            assert!((1..=16).contains(&details.as_array().unwrap().len()), "{body}");
            let problems = [
                "required",
                "unknown_field",
                "type",
                "format",
                "length",
                "range",
                "invalid",
            ];
            assert!(
                refused
                    .details
                    .iter()
                    .all(|(_, problem)| problems.contains(&&**problem)),
                "{body}"
            );
        }
        if refused.code == "read_only" {
            assert_eq!(fields, BTreeSet::from(["code", "message", "requestId"]), "{body}");
            assert_eq!(self.header("allow"), "GET, HEAD");
        }
        if refused.reason == "method_not_allowed" {
            assert!(!self.header("allow").is_empty(), "{self:?}");
        }
        let text = self.text();
        assert!(key::ALL.iter().all(|secret| !text.contains(secret)), "{body}");
        assert!(
            ["/tmp/", "postgres", "SELECT"]
                .iter()
                .all(|inside| !text.contains(inside)),
            "{body}"
        );
    }
}
