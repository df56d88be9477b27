//! Logs and traces (docs/spec/environment.md 4.5).

use super::findings::Findings;
use super::report::{Origin, UNSET};
use super::variables::Variables;

/// The least important lines that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Debug,
    /// What happens.
    #[default]
    Info,
    /// What an operator should look at.
    Warning,
    /// What is broken.
    Error,
}

impl Level {
    /// The word in the configuration and in log lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where logs and traces go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// `ARKVORY_LOG_LEVEL`: `debug`, `info`, `warning` or `error`; default `info`.
    pub level: Level,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`: base address of a collector that takes OTLP over HTTP (`/v1/traces` is added),
    /// `http://` or `https://`; default none: no traces.
    pub otlp_endpoint: Option<String>,
}

impl Telemetry {
    pub(super) fn read(found: &Variables, findings: &mut Findings) -> Self {
        let level = if found.log_level.is_set() {
            findings.given(&found.log_level, "debug, info, warning or error", |text| {
                [Level::Debug, Level::Info, Level::Warning, Level::Error]
                    .into_iter()
                    .find(|level| level.as_str() == text)
            })
        } else {
            findings.at_default(&found.log_level, Level::default().as_str());
            None
        };
        Self {
            level: level.unwrap_or_default(),
            otlp_endpoint: read_endpoint(found, findings),
        }
    }
}

fn read_endpoint(found: &Variables, findings: &mut Findings) -> Option<String> {
    let variable = &found.otlp_endpoint;
    let Some(text) = variable.text() else {
        findings.at_default(variable, UNSET);
        return None;
    };
    // Credentials in an address end up in places where nobody expects them.
    let host = text.parse::<http::Uri>().ok().and_then(|address| {
        let web = matches!(address.scheme_str(), Some("http" | "https"));
        let authority = address.authority()?.as_str().to_owned();
        (web && !authority.contains('@') && address.query().is_none()).then_some(authority)
    });
    match host {
        // Addresses aren't logged (docs/spec/environment.md 4.7); the host is enough to recognize it.
        Some(host) => findings.show(variable, host, Origin::Environment),
        None => findings.invalid(variable.name, "an http:// or https:// address without user and query"),
    }
    Some(text.to_owned())
}
