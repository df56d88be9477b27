//! What others know, put into metrics at each scrape.

use std::time::Duration;

use prometheus_client::encoding::EncodeGaugeValue;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::model::member::Slot;

/// The state of everything that keeps its own books. What is `None` doesn't exist in this process, and makes no metric.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The lease on a slot.
    pub lease: Option<LeaseFacts>,
    /// The governor of downloads.
    pub download: DownloadFacts,
    /// Files that are open for reading, with their locks.
    pub open_artifacts: u64,
    /// Reads of files that the page cache answered.
    pub cached_reads: u64,
    /// Reads of files that a thread had to wait for.
    pub blocking_reads: u64,
    /// Tasks that live, by the name of their kind.
    pub tasks: Vec<(&'static str, usize)>,
    /// Log lines that were lost.
    pub log_lines_dropped: u64,
    /// Exports of spans that have failed.
    pub trace_exports_failed: Option<u64>,
    /// Time since the last good probe of the ownership of the storage began.
    pub ownership_probe_age: Option<Duration>,
}

/// The lease of this process.
#[derive(Clone, Copy, Debug)]
pub struct LeaseFacts {
    /// Its slot.
    pub slot: Slot,
    /// How many slots the installation has.
    pub slots: u8,
    /// Counts the owners of this slot.
    pub generation: u64,
    /// Time since the last good renewal began.
    pub age: Duration,
    /// Time in which it can be trusted if no renewal succeeds any more.
    pub left: Duration,
}

/// The governor of downloads.
#[derive(Clone, Copy, Debug, Default)]
pub struct DownloadFacts {
    /// The rate of the whole installation in bytes/s; `None` in a standalone writer.
    pub total: Option<u64>,
    /// The rate of this process in bytes/s; 0 = no limit.
    pub share: u64,
    /// Bytes that were granted since the start.
    pub granted: u64,
    /// Quanta that wait for bytes.
    pub waiting: u64,
}

impl Facts {
    pub(super) fn register(&self, registry: &mut Registry) {
        let mut put = Put(registry);
        if let Some(lease) = &self.lease {
            put.gauge(
                "arkvory_gateway_slot",
                "Slot of this process",
                u64::from(lease.slot.number()),
            );
            put.gauge(
                "arkvory_gateway_slots",
                "Slots of the installation",
                u64::from(lease.slots),
            );
            put.gauge(
                "arkvory_gateway_generation",
                "Owners that this slot has had",
                lease.generation,
            );
            put.seconds(
                "arkvory_gateway_lease_age_seconds",
                "Time since the last good renewal",
                lease.age,
            );
            put.seconds(
                "arkvory_gateway_lease_left_seconds",
                "Time until the lease is lost",
                lease.left,
            );
        }
        let download = &self.download;
        if let Some(total) = download.total {
            put.gauge(
                "arkvory_download_total_bytes_per_second",
                "Rate of all processes together",
                total,
            );
        }
        put.gauge(
            "arkvory_download_share_bytes_per_second",
            "Rate of this process; 0 = no limit",
            download.share,
        );
        put.counter(
            "arkvory_download_granted_bytes",
            "Bytes that downloads were granted",
            download.granted,
        );
        put.gauge(
            "arkvory_download_waiting_quanta",
            "Quanta that wait for bytes",
            download.waiting,
        );
        put.gauge("arkvory_open_artifacts", "Files open for reading", self.open_artifacts);
        put.counter(
            "arkvory_log_lines_dropped",
            "Log lines that were lost",
            self.log_lines_dropped,
        );
        if let Some(failed) = self.trace_exports_failed {
            put.counter(
                "arkvory_trace_exports_failed",
                "Exports of spans that have failed",
                failed,
            );
        }
        if let Some(age) = self.ownership_probe_age {
            put.seconds(
                "arkvory_ownership_probe_age_seconds",
                "Time since ownership was last seen",
                age,
            );
        }
        let reads = Family::<[(&str, &str); 1], Counter>::default();
        for (how, count) in [("cached", self.cached_reads), ("blocking", self.blocking_reads)] {
            reads.get_or_create(&[("how", how)]).inc_by(count);
        }
        put.0
            .register("arkvory_download_reads", "Reads of files for downloads", reads);
        let tasks = Family::<[(&str, &str); 1], Gauge>::default();
        for (kind, count) in &self.tasks {
            tasks
                .get_or_create(&[("kind", *kind)])
                .set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        put.0.register("arkvory_tasks", "Tasks that live", tasks);
    }
}

struct Put<'a>(&'a mut Registry);

impl Put<'_> {
    fn gauge<V: EncodeGaugeValue + std::fmt::Debug + Send + Sync + 'static>(&mut self, name: &str, help: &str, value: V)
    where
        ConstGauge<V>: prometheus_client::registry::Metric,
    {
        self.0.register(name, help, ConstGauge::new(value));
    }

    fn seconds(&mut self, name: &str, help: &str, value: Duration) {
        self.gauge(name, help, value.as_secs_f64());
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstCounter::new(value));
    }
}
