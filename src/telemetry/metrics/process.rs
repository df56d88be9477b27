//! What the kernel knows of this process.

use std::fs;

use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Names of the collectors that can fail.
pub(super) const COLLECTORS: [&str; 2] = ["memory", "open_fds"];

/// Registers what can be read; tells of what can't.
pub(super) fn collect(registry: &mut Registry, failed: impl Fn(&'static str)) {
    match resident_bytes() {
        Some(bytes) => registry.register(
            "arkvory_process_resident_memory_bytes",
            "Memory of this process, mapped files included",
            ConstGauge::new(bytes),
        ),
        None => failed(COLLECTORS[0]),
    }
    match open_fds() {
        Some(count) => registry.register("arkvory_process_open_fds", "Open descriptors", ConstGauge::new(count)),
        None => failed(COLLECTORS[1]),
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // One of them is the folder itself.
    Some((entries.count() as u64).saturating_sub(1))
}
