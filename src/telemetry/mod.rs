//! Logs, traces and metrics.
//!
//! Logs are JSON lines on standard output (docs/spec/environment.md 4.7), written by a thread of their own that rather
//! drops lines than blocks a transfer. Spans with the target [`SPANS`] go to a collector if one is set. Metrics are
//! values, passed to whoever counts ([`metrics::Metrics`]).

mod line;
pub mod logs;
pub mod metrics;
pub mod request;
pub mod traces;

use std::sync::Arc;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt as _;
use uuid::Uuid;

use crate::clock::Clock;
use crate::config;

/// The name of the product in log lines, metrics and traces.
pub const SERVICE: &str = "arkvory";
/// Its version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The target of spans that are exported. Spans with another target stay in the process and are never written.
pub const SPANS: &str = "arkvory::span";

/// Lines that wait for a slow reader of the log; at most 16 MiB.
const WAITING_LINES: usize = 4096;

/// Telemetry can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The exporter of traces refuses its settings.
    #[error("Invalid OTEL_EXPORTER_OTLP_ENDPOINT, or another OTEL variable: traces can't be exported so")]
    Traces,
    /// It is set up already.
    #[error("telemetry was set up twice")]
    Twice,
}

/// Keeps log and traces going. When it is dropped, what is waiting is written and sent, which takes up to two seconds
/// each: drop it outside of the asynchronous part of the program.
#[must_use = "dropping it ends log and traces"]
pub struct Guard {
    // Fields are dropped in this order: the traces' last words go to the log.
    traces: Option<traces::Exporter>,
    dropped: DroppedLines,
    _writer: WorkerGuard,
}

/// Counts log lines that nobody could take in time.
#[derive(Clone, Debug)]
pub struct DroppedLines(ErrorCounter);

impl DroppedLines {
    /// How many since the start.
    pub fn count(&self) -> u64 {
        self.0.dropped_lines() as u64
    }
}

/// Sets up log and traces for this process. From now on a panic makes a log line too, without its text.
///
/// `instance` is the identity of this process start, `service.instance.id` of its spans.
pub fn init(settings: &config::Telemetry, instance: Uuid, clock: Arc<dyn Clock>) -> Result<Guard, Error> {
    let (writer, guard) = writer(std::io::stdout());
    let dropped = DroppedLines(writer.error_counter());
    let traces = match &settings.otlp_endpoint {
        Some(endpoint) => Some(traces::Exporter::start(endpoint, instance).map_err(|_| Error::Traces)?),
        None => None,
    };
    let subscriber = tracing_subscriber::registry()
        .with(traces.as_ref().map(traces::Exporter::layer))
        .with(logs::layer(settings.level, clock, writer));
    tracing::subscriber::set_global_default(subscriber).map_err(|_| Error::Twice)?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(target: "arkvory::process", code = "process.unhandled", errorName = "panic", detail = place);
    }));
    Ok(Guard {
        traces,
        dropped,
        _writer: guard,
    })
}

/// Writes lines to `output` by a thread of its own, and drops them when it can't keep up.
fn writer(output: impl std::io::Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING_LINES)
        .thread_name("log")
        .finish(output)
}

impl Guard {
    /// The count of lost lines, for the metrics.
    pub fn dropped_lines(&self) -> DroppedLines {
        self.dropped.clone()
    }

    /// Exports of spans that have failed, for the metrics; `None` without a collector.
    pub fn failed_exports(&self) -> Option<traces::FailedExports> {
        self.traces.as_ref().map(traces::Exporter::failed)
    }

    /// Writes and sends what is waiting; the same as dropping it.
    pub fn shutdown(self) {
        drop(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SystemClock, TestClock};
    use std::io::Write;
    use std::process::Command;
    use std::sync::mpsc;

    use serde_json::Value;

    /// Tells the test below that it is the process whose lines are read.
    const CHILD: &str = "TEST_IS_THE_SPEAKING_PROCESS";

    fn speak() {
        let settings = config::Telemetry::default();
        let guard = init(&settings, Uuid::nil(), Arc::new(SystemClock)).unwrap();
        assert!(matches!(
            init(&settings, Uuid::nil(), Arc::new(SystemClock)),
            Err(Error::Twice)
        ));
        tracing::debug!(code = "test.hidden");
        tracing::info!(code = "test.seen");
        assert!(std::thread::spawn(|| panic!("CANARY")).join().is_err());
        assert_eq!(guard.dropped_lines().count(), 0);
        assert!(guard.failed_exports().is_none());
        guard.shutdown();
    }

    #[test]
    fn a_process_writes_its_lines_before_it_ends() {
        if std::env::var_os(CHILD).is_some() {
            speak();
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.env(CHILD, "1").args([
            "--exact",
            "--nocapture",
            "telemetry::tests::a_process_writes_its_lines_before_it_ends",
        ]);
        let output = child.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let codes: Vec<_> = lines.map(|line| line["code"].as_str().map(str::to_owned)).collect();
        assert_eq!(
            codes,
            [Some("test.seen".to_owned()), Some("process.unhandled".to_owned())],
            "{text}"
        );
        assert!(output.status.success() && !text.contains("CANARY"), "{text}");
    }

    /// An output that takes nothing until it is told to.
    struct Stuck(mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_loses_lines_and_blocks_nobody() {
        let (release, wait) = mpsc::channel();
        let (writer, guard) = writer(Stuck(wait));
        let dropped = DroppedLines(writer.error_counter());
        let clock = Arc::new(TestClock::default());
        let subscriber = tracing_subscriber::registry().with(logs::layer(config::Level::Info, clock, writer));
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..WAITING_LINES + 100 {
                tracing::info!(code = "x");
            }
        });
        assert!((98..=100).contains(&dropped.count()), "{}", dropped.count());
        drop(release);
        drop(guard);
    }
}
