//! Log lines: events as JSON (docs/spec/environment.md 4.7).
//!
//! An event of this program names what happened in the field `code`:
//! `tracing::info!(code = "api.listening", address = %address, port)`. Its component is the first module below the
//! crate. Events of libraries are written from warnings up, and without their texts, which can hold anything.

use std::io::Write as _;
use std::sync::Arc;

use rustix::system::uname;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::{Fields, json};
use super::request;
use super::{SERVICE, VERSION};
use crate::clock::Clock;
use crate::config;

const TIMESTAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Writes events of at least `level` to `writer`, one line with one `write` each.
pub fn layer<S, W>(level: config::Level, clock: Arc<dyn Clock>, writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let least = match level {
        config::Level::Debug => LevelFilter::TRACE,
        config::Level::Info => LevelFilter::INFO,
        config::Level::Warning => LevelFilter::WARN,
        config::Level::Error => LevelFilter::ERROR,
    };
    let wanted = move |event: &Metadata<'_>| {
        let important = *event.level() <= Level::WARN || is_own(event.target());
        event.is_event() && important && *event.level() <= least
    };
    let lines = Lines {
        clock,
        writer,
        process: process(),
    };
    lines.with_filter(filter_fn(wanted).with_max_level_hint(least))
}

/// `"service":…` to `"hostname":…`, which are the same in every line.
fn process() -> String {
    let host = uname();
    format!(
        "\"service\":{},\"version\":{},\"pid\":{},\"hostname\":{}",
        json(SERVICE),
        json(VERSION),
        std::process::id(),
        json(&host.nodename().to_string_lossy())
    )
}

fn is_own(target: &str) -> bool {
    target
        .strip_prefix(SERVICE)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The part of the program that speaks, or the library.
fn component(target: &str) -> &str {
    let mut parts = target.split("::");
    match (parts.next(), parts.next()) {
        (Some(SERVICE), Some(part)) => part,
        (Some(SERVICE), None) => "main",
        (first, _) => first.unwrap_or_default(),
    }
}

const fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => config::Level::Error,
        Level::WARN => config::Level::Warning,
        Level::INFO => config::Level::Info,
        Level::DEBUG | Level::TRACE => config::Level::Debug,
    }
    .as_str()
}

struct Lines<W> {
    clock: Arc<dyn Clock>,
    writer: W,
    process: String,
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        let own = is_own(about.target());
        let mut fields = Fields::new(own);
        event.record(&mut fields);
        if let Some(id) = request::current() {
            fields.name_request(&id);
        }
        let code = match fields.code.as_deref() {
            Some(code) if own => code,
            _ if own => "unnamed",
            _ => "library",
        };
        let head = format!(
            "\"timestamp\":\"{}\",\"level\":\"{}\",{},\"component\":{}",
            self.clock.now().date().format(TIMESTAMP).unwrap_or_default(),
            word(*about.level()),
            self.process,
            json(component(about.target())),
        );
        let mut line = fields.line(&head, code);
        line.push('\n');
        // Nobody is left to tell when the log itself fails.
        let _ = self.writer.make_writer_for(about).write_all(line.as_bytes());
    }
}

/// A writer for tests that keeps the lines.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<std::sync::Mutex<Vec<u8>>>);

#[cfg(test)]
impl Captured {
    /// Runs `scene` with a log of everything on `level`, and returns its lines as they are.
    pub(crate) fn of(level: config::Level, scene: impl FnOnce()) -> Vec<String> {
        use tracing_subscriber::layer::SubscriberExt as _;
        let captured = Self::default();
        let clock = Arc::new(crate::clock::TestClock::default());
        let subscriber = tracing_subscriber::registry().with(layer(level, clock, captured.clone()));
        tracing::subscriber::with_default(subscriber, scene);
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
impl std::io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn one(scene: impl FnOnce()) -> (String, Value) {
        let lines = Captured::of(config::Level::Debug, scene);
        assert_eq!(lines.len(), 1, "{lines:?}");
        (lines[0].clone(), serde_json::from_str(&lines[0]).unwrap())
    }

    #[test]
    fn the_shape_of_a_line() {
        let address = std::net::Ipv4Addr::LOCALHOST;
        let (text, line) = one(|| {
            tracing::info!(target: "arkvory::http::serve", code = "api.listening", address = %address, port = 8080, tls = false);
        });
        let first = [
            "timestamp",
            "level",
            "service",
            "version",
            "pid",
            "hostname",
            "component",
            "code",
            "address",
        ];
        let places = first.map(|name| text.find(&format!("\"{name}\":")).unwrap());
        assert!(places.is_sorted(), "{text}");
        assert!(
            text.starts_with("{\"timestamp\":\"2027-01-15T08:00:00.000Z\",\"level\":\"info\",\"service\":\"arkvory\",")
        );
        assert_eq!(line["component"], "http");
        assert_eq!(
            (&line["address"], &line["port"], &line["tls"]),
            (&"127.0.0.1".into(), &8080.into(), &false.into())
        );
        assert_eq!(line["pid"], std::process::id());
    }

    #[test]
    fn levels_and_components() {
        let levels = |level| {
            let lines = Captured::of(level, || {
                tracing::debug!(code = "d");
                tracing::info!(code = "i");
                tracing::warn!(code = "w");
                tracing::error!(target: "arkvory", code = "e");
            });
            let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines
                .map(|line| format!("{}/{}", line["level"], line["component"]).replace('"', ""))
                .collect::<Vec<_>>()
        };
        let all = ["debug/telemetry", "info/telemetry", "warning/telemetry", "error/main"];
        assert_eq!(levels(config::Level::Debug), all);
        assert_eq!(levels(config::Level::Info), all[1..]);
        assert_eq!(levels(config::Level::Warning), all[2..]);
        assert_eq!(levels(config::Level::Error), all[3..]);
    }

    #[test]
    fn only_fields_of_the_list() {
        let error = std::io::Error::other("CANARY");
        let (text, line) = one(|| {
            tracing::error!(
                code = "x",
                url = "CANARY",
                error = %error,
                reason = &error as &(dyn std::error::Error + 'static),
                token = ?"CANARY",
                errno = Some(2),
                sqlstate = None::<&str>,
                seconds = 1.5,
                "said {}",
                "so"
            );
        });
        assert!(!text.contains("CANARY"), "{text}");
        assert_eq!(
            (&line["errno"], &line["seconds"], &line["detail"]),
            (&2.into(), &1.5.into(), &"said so".into())
        );
        assert!(line.get("sqlstate").is_none() && line.get("message").is_none());
    }

    #[test]
    fn libraries_say_little() {
        let (text, line) = one(|| {
            tracing::info!(target: "sqlx::query", "CANARY");
            tracing::info!(target: "arkvory_other", "CANARY");
            tracing::warn!(target: "sqlx::query", code = "CANARY", reason = "CANARY", errorName = "Io", "CANARY");
        });
        assert!(!text.contains("CANARY"));
        assert_eq!((&line["code"], &line["component"]), (&"library".into(), &"sqlx".into()));
        assert_eq!(line["errorName"], "Io");
    }

    #[test]
    fn texts_are_cut_and_escaped() {
        let long = "ü\n\"".repeat(200);
        let (_, line) = one(|| tracing::info!(code = "x", detail = long, reason = %long, principal = ?long));
        assert_eq!(line["detail"], long.chars().take(256).collect::<String>());
        assert_eq!(line["reason"], line["detail"]);
        assert_eq!(line["principal"].as_str().map(|text| text.chars().count()), Some(256));
    }

    #[test]
    fn a_line_that_is_too_long_is_replaced() {
        let long = "\u{1}".repeat(256);
        let (text, line) = one(|| tracing::info!(code = "x.y", detail = long, reason = long, principal = long));
        assert!(text.len() < 4096);
        assert_eq!(
            (&line["code"], &line["detail"]),
            (&"log.line_too_long".into(), &"x.y".into())
        );
    }

    #[test]
    fn an_event_without_a_code_and_a_span() {
        let (_, line) = one(|| {
            let _span = tracing::info_span!(target: "arkvory::span", "request").entered();
            tracing::info!("hello");
        });
        assert_eq!((&line["code"], &line["detail"]), (&"unnamed".into(), &"hello".into()));
    }
}
