//! Trace context in headers (W3C Trace Context).

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

const TRACEPARENT: &str = "traceparent";

/// The trace that a request belongs to, as the parent of its span; empty if its headers name none or a bad one.
pub fn parent_of(headers: &HeaderMap) -> Context {
    if trace_id(headers).is_none() {
        return Context::new();
    }
    TraceContextPropagator::new().extract_with_context(&Context::new(), &From(headers))
}

/// Makes `span` part of the trace that a request's headers name.
pub fn continue_from(span: &Span, headers: &HeaderMap) {
    // Fails only for a span that isn't exported.
    let _ = span.set_parent(parent_of(headers));
}

/// Writes the current span into the headers of an outgoing request. Does nothing when spans aren't exported.
pub fn inject(headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut Into(headers));
}

/// The trace id of a request's headers: 32 lower-case hexadecimal digits. `None` unless there is exactly one
/// `traceparent` and it is good in every detail.
pub fn trace_id(headers: &HeaderMap) -> Option<String> {
    let mut found = headers.get_all(TRACEPARENT).iter();
    let (Some(parent), None) = (found.next(), found.next()) else {
        return None;
    };
    let parent = parent.to_str().ok()?;
    let hex = |text: &str, digits| text.len() == digits && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let some = |id: &str| id.bytes().any(|c| c != b'0');
    let mut parts = parent.splitn(5, '-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Later versions may append parts, version ff is none.
    let ends = parts.next().is_none() || version != "00";
    let good = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    (good && ends && some(trace) && some(span)).then(|| trace.to_owned())
}

struct From<'a>(&'a HeaderMap);

impl Extractor for From<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct Into<'a>(&'a mut HeaderMap);

impl Injector for Into<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::SPANS;
    use opentelemetry::trace::TraceContextExt as _;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn parent(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            HeaderName::from_static(TRACEPARENT),
            HeaderValue::from_str(text).unwrap(),
        )])
    }

    #[test]
    fn only_perfect_headers_are_taken() {
        let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(trace_id(&parent(&good)).as_deref(), Some(TRACE));
        assert_eq!(
            trace_id(&parent(&format!("cc-{TRACE}-00f067aa0ba902b7-01-more-to-come"))).as_deref(),
            Some(TRACE)
        );
        let zero = "0".repeat(32);
        for bad in [
            String::new(),
            TRACE.into(),
            good.to_uppercase(),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-"),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b-01"),
            format!("00-{zero}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-{}-01", &zero[16..]),
            format!(" {good}"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.replace('4', "g")),
        ] {
            assert_eq!(trace_id(&parent(&bad)), None, "{bad}");
            assert!(!parent_of(&parent(&bad)).span().span_context().is_valid(), "{bad}");
        }
        let mut twice = parent(&good);
        twice.append(TRACEPARENT, HeaderValue::from_str(&good).unwrap());
        assert_eq!(trace_id(&twice), None);
    }

    #[test]
    fn without_a_collector_nothing_is_passed_on() {
        let mut headers = HeaderMap::new();
        let _span = tracing::info_span!(target: SPANS, "lookup").entered();
        inject(&mut headers);
        assert!(headers.is_empty());
    }
}
