//! Reads, for the metrics, what the parts of a process know of themselves.

use std::sync::Arc;

use crate::budget::meter::Meter;
use crate::clock::Clock;
use crate::lease::{self, Lease};
use crate::model::member::Slot;
use crate::storage::Volume;
use crate::supervise::Tasks;
use crate::telemetry::DroppedLines;
use crate::telemetry::metrics::{DownloadFacts, Facts, LeaseFacts};
use crate::telemetry::traces::FailedExports;

/// What the log and the exporter of traces count.
#[derive(Clone)]
pub(super) struct TelemetryCounts {
    pub(super) dropped_lines: DroppedLines,
    pub(super) failed_exports: Option<FailedExports>,
}

/// Sources of [`Facts`] that outlive the tasks they tell of.
pub(super) struct Sources {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) volume: Volume,
    pub(super) downloads: Meter,
    pub(super) tasks: Tasks,
    pub(super) telemetry: TelemetryCounts,
    pub(super) ownership: lease::facts::Facts,
    pub(super) place: Option<PlaceFacts>,
}

/// A slot, and the lease on it.
pub(super) struct PlaceFacts {
    pub(super) slot: Slot,
    pub(super) slots: u8,
    lease: lease::facts::Facts,
    generation: u64,
    total: u64,
}

impl PlaceFacts {
    pub(super) fn of(lease: &Lease) -> Self {
        Self {
            slot: lease.grant().slot,
            slots: lease.policy().slots(),
            lease: lease.facts(),
            generation: u64::try_from(lease.grant().generation).unwrap_or(0),
            total: lease.policy().total(),
        }
    }
}

impl Sources {
    pub(super) fn read(&self) -> Facts {
        let now = self.clock.now();
        let downloads = self.downloads.snapshot();
        let counts = self.volume.counts();
        Facts {
            lease: self.place.as_ref().map(|place| LeaseFacts {
                slot: place.slot,
                slots: place.slots,
                generation: place.generation,
                age: place.lease.age(now),
                left: place.lease.left(now),
            }),
            download: DownloadFacts {
                total: self.place.as_ref().map(|place| place.total),
                share: downloads.bytes_per_second,
                granted: downloads.granted_bytes,
                waiting: downloads.waiting as u64,
            },
            open_artifacts: counts.open_blobs,
            cached_reads: counts.cached_reads,
            blocking_reads: counts.blocking_reads,
            tasks: self.tasks.alive(),
            log_lines_dropped: self.telemetry.dropped_lines.count(),
            trace_exports_failed: self.telemetry.failed_exports.as_ref().map(FailedExports::count),
            ownership_probe_age: Some(self.ownership.age(now)),
        }
    }
}
