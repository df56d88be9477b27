//! One log line: which fields there are and how long they may be (docs/spec/environment.md 4.7).

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};

/// The longest text of a field, in characters.
const LONGEST_TEXT: usize = 256;
/// The longest line, in bytes, its newline included.
const LONGEST_LINE: usize = 4096;

/// The closed list: a field with another name is never written.
const FIELDS: &[&str] = &[
    "address",
    "artifact",
    "bytes",
    "bytesReceived",
    "bytesSent",
    "clientIp",
    "completed",
    "count",
    "detail",
    "durationMs",
    "errno",
    "errorName",
    "generation",
    "instance",
    "method",
    "port",
    "principal",
    "reason",
    "requestId",
    "role",
    "route",
    "seconds",
    "share",
    "slot",
    "slots",
    "sqlstate",
    "status",
    "task",
    "tls",
    "total",
    "traceId",
];

/// The fields of an event, as JSON.
pub(super) struct Fields {
    /// Whether they come from this program; of others only `errorName` is taken.
    own: bool,
    pub(super) code: Option<String>,
    /// `,"name":value` for each.
    rest: String,
}

impl Fields {
    pub(super) const fn new(own: bool) -> Self {
        Self {
            own,
            code: None,
            rest: String::new(),
        }
    }

    /// Names the request, unless the event did.
    pub(super) fn name_request(&mut self, id: &str) {
        if self.own && !self.rest.contains("\"requestId\":") {
            let _ = write!(self.rest, ",\"requestId\":{}", json(&cut(id)));
        }
    }

    /// A line without its newline: `head`, which is the inside of an object, then these fields.
    pub(super) fn line(&self, head: &str, code: &str) -> String {
        let line = format!("{{{head},\"code\":{}{}}}", json(code), self.rest);
        if line.len() < LONGEST_LINE {
            return line;
        }
        format!("{{{head},\"code\":\"log.line_too_long\",\"detail\":{}}}", json(code))
    }

    fn put(&mut self, field: &Field, value: impl fmt::Display) {
        // `Formatter` errors can't come from a `String`.
        let _ = write!(self.rest, ",\"{}\":{value}", name(field));
    }

    fn wants(&self, field: &Field) -> bool {
        if self.own {
            FIELDS.contains(&name(field))
        } else {
            field.name() == "errorName"
        }
    }
}

/// The name under which a field is written: the free text of an event is its detail.
fn name(field: &Field) -> &'static str {
    match field.name() {
        "message" => "detail",
        name => name,
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "code" {
            self.code = Some(cut(value));
        } else if self.wants(field) {
            self.put(field, json(&cut(value)));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "code" && !self.wants(field) {
            return;
        }
        let mut text = Cut::default();
        // Cutting ends the formatting with an error.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text.text);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if self.wants(field) {
            self.put(field, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if self.wants(field) {
            self.put(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if self.wants(field) {
            self.put(field, value);
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if self.wants(field) && value.is_finite() {
            self.put(field, value);
        }
    }

    // Texts of errors can hold anything, also what callers sent.
    fn record_error(&mut self, _: &Field, _: &(dyn std::error::Error + 'static)) {}
}

/// A JSON string.
pub(super) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

/// Takes as much text as a field may have.
#[derive(Default)]
struct Cut {
    text: String,
    length: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.length == LONGEST_TEXT {
                return Err(fmt::Error);
            }
            self.text.push(c);
            self.length += 1;
        }
        Ok(())
    }
}
