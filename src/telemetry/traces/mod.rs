//! Spans for a collector, and trace context in headers.

mod context;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter,
};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;
use uuid::Uuid;

pub use context::{continue_from, inject, parent_of, trace_id};

use super::{SERVICE, SPANS, VERSION};

/// Time for one export, with its repetitions.
const EXPORT_LIMIT: Duration = Duration::from_secs(5);
/// Time for the last export.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);
/// How often spans are sent.
const INTERVAL: Duration = Duration::from_secs(2);
/// Spans that wait; what comes on top is lost.
const WAITING_SPANS: usize = 4096;

/// Sends spans by threads of its own, so that neither a slow nor a dead collector is felt anywhere else.
pub struct Exporter {
    provider: SdkTracerProvider,
    failed: FailedExports,
}

/// Counts exports that have failed, each with up to 512 spans.
#[derive(Clone, Debug, Default)]
pub struct FailedExports(Arc<AtomicU64>);

impl FailedExports {
    /// How many since the start.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Exporter {
    /// Begins to export to the collector whose base address is `endpoint`.
    pub(super) fn start(endpoint: &str, instance: Uuid) -> Result<Self, ExporterBuildError> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_timeout(EXPORT_LIMIT)
            .build()?;
        let failed = FailedExports::default();
        let watched = Watched {
            exporter,
            failed: failed.clone(),
            away: AtomicBool::new(false),
        };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(WAITING_SPANS)
            .with_scheduled_delay(INTERVAL)
            .build();
        let resource = Resource::builder_empty()
            .with_service_name(SERVICE)
            .with_attribute(KeyValue::new("service.version", VERSION))
            .with_attribute(KeyValue::new("service.instance.id", instance.to_string()))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(watched).with_batch_config(batches).build())
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_resource(resource)
            .build();
        Ok(Self { provider, failed })
    }

    /// Takes spans with the target [`SPANS`], from level info up.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let exported = |about: &Metadata<'_>| about.is_span() && about.target() == SPANS;
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(exported).with_max_level_hint(LevelFilter::INFO))
    }

    pub(super) fn failed(&self) -> FailedExports {
        self.failed.clone()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // A collector that is away has been reported already.
        let _ = self.provider.shutdown_with_timeout(SHUTDOWN_LIMIT);
    }
}

/// Tells of a collector that goes away and comes back, once each.
struct Watched<E> {
    exporter: E,
    failed: FailedExports,
    away: AtomicBool,
}

impl<E> fmt::Debug for Watched<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        let was_away = self.away.swap(result.is_err(), Ordering::Relaxed);
        if result.is_err() {
            self.failed.0.fetch_add(1, Ordering::Relaxed);
        }
        match (was_away, result.is_err()) {
            (false, true) => tracing::warn!(code = "traces.unavailable"),
            (true, false) => tracing::info!(code = "traces.available"),
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests;
