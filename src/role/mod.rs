//! What a process consists of, and in which order it starts and stops.

mod facts;
mod process;
mod start;

use std::process::ExitCode;
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::config::{self, Config};
use crate::lease::Instance;
use crate::model::failure::Classify as _;
use crate::telemetry;
use facts::TelemetryCounts;
use start::Failure;

/// Runs the role that the environment names until it is told to stop, or has to.
///
/// Exit codes: 0 after an ordered stop; 1 when the start failed, or when lease or ownership were lost.
pub fn serve() -> ExitCode {
    let clock = Arc::new(SystemClock);
    let instance = Instance::random();
    let config = Config::from_process();
    let settings = config
        .as_ref()
        .map_or_else(|_| config::Telemetry::default(), |config| config.telemetry.clone());
    let telemetry = match telemetry::init(&settings, instance.as_uuid(), clock.clone()) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            eprintln!("arkvory: {error}");
            return ExitCode::FAILURE;
        }
    };
    let counts = TelemetryCounts {
        dropped_lines: telemetry.dropped_lines(),
        failed_exports: telemetry.failed_exports(),
    };
    let code = match config {
        Ok(config) => run(config, instance, clock, counts),
        Err(mistakes) => refuse(&mistakes.reason(), "invalid_input", &mistakes),
    };
    telemetry.shutdown();
    code
}

fn run(config: Config, instance: Instance, clock: Arc<dyn Clock>, counts: TelemetryCounts) -> ExitCode {
    warn(&config);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse("no threads can be started", "unavailable", &error),
    };
    let code = runtime.block_on(async {
        match Box::pin(start::start(config, instance, clock, counts)).await {
            Ok(process) => Box::pin(process.run()).await,
            Err(Failure::Stopped(order)) if !order.at_once => {
                tracing::info!(code = "api.stopped", reason = order.reason);
                ExitCode::from(order.exit_code)
            }
            Err(failure) => refuse(&failure.to_string(), failure.kind().code(), &failure),
        }
    });
    // Whatever still runs has been told to stop and was waited for; it isn't waited for again.
    runtime.shutdown_background();
    code
}

/// One line for the log, and for people the same with every detail.
fn refuse(reason: &str, code: &str, details: &dyn std::fmt::Display) -> ExitCode {
    tracing::error!(code = "startup.failed", reason, detail = code);
    eprintln!("arkvory: {details}");
    ExitCode::FAILURE
}

fn warn(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!(code = "config.ignored", reason = warning);
    }
    if config.http.exposes_plaintext() {
        tracing::warn!(code = "http.plaintext_exposed", address = %config.http.host);
    }
    tracing::info!(code = "config.in_force", detail = %config.report());
}
