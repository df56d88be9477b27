//! The error body (docs/spec/errors.md 3.1).

use serde::{Deserialize, Serialize};

/// The body of every 4xx and 5xx answer but those of `/health/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Machine code of a closed set.
    pub code: String,
    /// Text for people, which programs must not parse.
    pub message: String,
    /// Equals the header `X-Request-Id`.
    pub request_id: String,
    /// Refines the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Which values are wrong; at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
    /// Whole seconds, the same number as in `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One wrong value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// JSON Pointer into the body, or the bare name of a parameter.
    pub field: String,
    /// `required`, `unknown_field`, `type`, `format`, `length`, `range` or `invalid`.
    pub problem: String,
}
