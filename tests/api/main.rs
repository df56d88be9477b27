//! The tier `api`: real processes on a real PostgreSQL and a real directory, asked over HTTP.
//!
//! The files follow the specification: `reading` and `publishing` are docs/spec/http-api.md 2.6 and 2.7, `listing` is
//! 2.8, `front` is 2.1 to 2.3 with docs/spec/errors.md, `health` is docs/spec/health.md, `settings` is
//! docs/spec/environment.md, `starting` and `gateway` are docs/spec/cases.md 9.2 and 9.3, `outages` is 9.4; `draining`,
//! `crashes`, `full_disk` and `leaving` are what may go wrong around a transfer; `traces` is what a collector gets.

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod draining;
#[cfg(test)]
#[path = "../support/eventually.rs"]
mod eventually;
#[cfg(test)]
mod front;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod health;
#[cfg(test)]
mod leaving;
#[cfg(test)]
mod listing;
#[cfg(test)]
#[path = "../support/metrics.rs"]
mod metrics;
#[cfg(test)]
mod outages;
#[cfg(test)]
#[path = "../support/process.rs"]
mod process;
#[cfg(test)]
mod publishing;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod settings;
#[cfg(test)]
#[path = "../support/site.rs"]
mod site;
#[cfg(test)]
mod starting;
#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;
#[cfg(test)]
#[path = "../support/talk.rs"]
mod talk;
#[cfg(test)]
mod traces;
#[cfg(test)]
#[path = "../support/wire.rs"]
mod wire;
