//! What a process counts, as Prometheus text (docs/spec/health.md 8.2).
//!
//! [`Metrics`] holds what is counted as it happens. What somebody else knows anyway, such as the state of the lease, is
//! handed over at each scrape as [`Facts`]. No label carries an id, a key, or a name that users choose.

mod facts;
mod process;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

pub use facts::{DownloadFacts, Facts, LeaseFacts};

use super::{SERVICE, VERSION};
use crate::clock::Moment;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The route of requests that match none.
pub const UNMATCHED: &str = "unmatched";

/// Upper bounds of the time of a request, in seconds.
const REQUEST_SECONDS: [f64; 15] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
];
/// Upper bounds of the time of a renewal of the lease, in seconds; its limit is 1 s.
const RENEWAL_SECONDS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];
/// The longest label, in characters.
const LONGEST_LABEL: usize = 128;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answer {
    method: &'static str,
    route: String,
    status_class: &'static str,
}

/// A set of one label.
type One = [(&'static str, &'static str); 1];

/// Which way the bytes of a transfer go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// In.
    Upload,
    /// Out.
    Download,
}

impl Direction {
    const fn label(self) -> One {
        [(
            "direction",
            match self {
                Self::Upload => "upload",
                Self::Download => "download",
            },
        )]
    }
}

/// How a download ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every byte was taken.
    Completed,
    /// The client left.
    Aborted,
    /// This side could not go on.
    Failed,
}

impl Outcome {
    const fn label(self) -> One {
        [(
            "outcome",
            match self {
                Self::Completed => "completed",
                Self::Aborted => "aborted",
                Self::Failed => "failed",
            },
        )]
    }
}

/// A request that has ended, whatever way.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// As it came; unknown ones are counted as `other`.
    pub method: &'a Method,
    /// The template of the route; `None` = none has matched.
    pub route: Option<&'a str>,
    /// What was answered.
    pub status: StatusCode,
    /// From the head of the request to the end of the response.
    pub duration: Duration,
    /// Bytes from the socket.
    pub received: u64,
    /// Bytes to the socket.
    pub sent: u64,
}

/// The counters of this process; a cheap handle.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    requests: Family<Answer, Counter>,
    seconds: Family<Answer, Histogram, fn() -> Histogram>,
    received: Family<Route, Counter>,
    sent: Family<Route, Counter>,
    in_flight: Gauge,
    active: Family<One, Gauge>,
    renewals: Histogram,
    downloads: Family<One, Counter>,
    collection_failures: Family<One, Counter>,
}

fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// All counters at zero; `started` is when the process began.
    pub fn new(started: Moment) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let build = Family::<[(&str, &str); 2], Gauge>::default();
        build
            .get_or_create(&[("service", SERVICE), ("version", VERSION)])
            .set(1);
        add(r, "arkvory_build_info", "What runs here", build);
        r.register(
            "arkvory_process_start_time_seconds",
            "When the process began, since 1970",
            ConstGauge::new(started.wall.as_secs_f64()),
        );
        let seconds = Family::new_with_constructor((|| Histogram::new(REQUEST_SECONDS)) as fn() -> Histogram);
        let inner = Inner {
            requests: add(
                r,
                "arkvory_http_requests",
                "Requests that have ended",
                Family::default(),
            ),
            seconds: add(
                r,
                "arkvory_http_request_duration_seconds",
                "Time from head to end of response",
                seconds,
            ),
            received: add(r, "arkvory_http_request_bytes", "Bytes from sockets", Family::default()),
            sent: add(r, "arkvory_http_response_bytes", "Bytes to sockets", Family::default()),
            in_flight: add(
                r,
                "arkvory_http_requests_in_flight",
                "Requests but those for health",
                Gauge::default(),
            ),
            active: add(r, "arkvory_transfer_active", "Transfers that run", Family::default()),
            renewals: add(
                r,
                "arkvory_gateway_renewal_duration_seconds",
                "Time of renewals of the lease, good or bad",
                Histogram::new(RENEWAL_SECONDS),
            ),
            downloads: add(r, "arkvory_downloads", "Downloads that have ended", Family::default()),
            collection_failures: add(
                r,
                "arkvory_metrics_collection_failures",
                "Values that could not be collected",
                Family::default(),
            ),
            registry,
        };
        // What is never counted must be seen as zero.
        for direction in [Direction::Upload, Direction::Download] {
            drop(inner.active.get_or_create(&direction.label()));
        }
        for outcome in [Outcome::Completed, Outcome::Aborted, Outcome::Failed] {
            drop(inner.downloads.get_or_create(&outcome.label()));
        }
        for collector in process::COLLECTORS {
            drop(inner.collection_failures.get_or_create(&[("collector", collector)]));
        }
        Self(Arc::new(inner))
    }

    /// Counts a request that has ended.
    pub fn request(&self, request: Request<'_>) {
        let method = method(request.method);
        let route: String = request.route.unwrap_or(UNMATCHED).chars().take(LONGEST_LABEL).collect();
        let way = Route {
            method,
            route: route.clone(),
        };
        self.0.received.get_or_create(&way).inc_by(request.received);
        self.0.sent.get_or_create(&way).inc_by(request.sent);
        let answer = Answer {
            method,
            route,
            status_class: status_class(request.status),
        };
        self.0.requests.get_or_create(&answer).inc();
        self.0
            .seconds
            .get_or_create(&answer)
            .observe(request.duration.as_secs_f64());
    }

    /// A request that is not one for health is in flight until the result is dropped.
    pub fn in_flight(&self) -> Held {
        Held::new(self.0.in_flight.clone())
    }

    /// A transfer is active until the result is dropped.
    pub fn transfer(&self, direction: Direction) -> Held {
        Held::new(self.0.active.get_or_create_owned(&direction.label()))
    }

    /// Counts a download that has ended.
    pub fn download(&self, outcome: Outcome) {
        self.0.downloads.get_or_create(&outcome.label()).inc();
    }

    /// Counts a renewal of the lease by the time it took.
    pub fn renewal(&self, took: Duration) {
        self.0.renewals.observe(took.as_secs_f64());
    }

    /// Counts a value that could not be collected. `collector` is one of a few names.
    pub fn collection_failed(&self, collector: &'static str) {
        self.0
            .collection_failures
            .get_or_create(&[("collector", collector)])
            .inc();
    }

    /// All metrics in the text format 0.0.4, with [`CONTENT_TYPE`].
    pub fn render(&self, facts: &Facts) -> String {
        let mut rest = Registry::default();
        process::collect(&mut rest, |collector| self.collection_failed(collector));
        facts.register(&mut rest);
        let mut text = String::new();
        // Writing to a `String` can't fail, and nothing else in there does.
        let _ = prometheus_text::encode(&mut text, &self.0.registry);
        let _ = prometheus_text::encode(&mut text, &rest);
        text
    }
}

/// Counts something while it lasts.
#[derive(Debug)]
#[must_use = "what it counts ends when it is dropped"]
pub struct Held(Gauge);

impl Held {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"];
    KNOWN
        .into_iter()
        .find(|known| *known == method.as_str())
        .unwrap_or("other")
}

fn status_class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests;
