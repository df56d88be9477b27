//! What the volume counts, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The running figures.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) open_blobs: Gauge,
    pub(super) open_staged: Gauge,
    pub(super) cached_reads: AtomicU64,
    pub(super) blocking_reads: AtomicU64,
}

/// How many of something there are.
#[derive(Debug, Default)]
pub(super) struct Gauge(AtomicU64);

impl Gauge {
    pub(super) fn up(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn down(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The figures at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Files open for reading now, each with its lock.
    pub open_blobs: u64,
    /// Files being written now.
    pub open_staged: u64,
    /// Bytes that files being written will still need, as far as it was declared.
    pub in_flight_bytes: u64,
    /// Reads answered from the page cache without leaving the async thread, since the start.
    pub cached_reads: u64,
    /// Reads that needed the blocking pool, since the start.
    pub blocking_reads: u64,
}

impl Counters {
    pub(super) fn counts(&self, in_flight_bytes: u64) -> Counts {
        Counts {
            open_blobs: self.open_blobs.0.load(Relaxed),
            open_staged: self.open_staged.0.load(Relaxed),
            in_flight_bytes,
            cached_reads: self.cached_reads.load(Relaxed),
            blocking_reads: self.blocking_reads.load(Relaxed),
        }
    }
}
