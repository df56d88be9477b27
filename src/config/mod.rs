//! Reads the environment; the only place that does (docs/spec/environment.md).
//!
//! envy sorts the variables into one flat struct of texts, each section parses its own, and ALL mistakes are reported
//! together. A text about a mistake names its variables and never shows a value.

pub mod budget;
pub mod database;
pub mod file;
mod findings;
pub mod gateway;
pub mod http;
mod mistakes;
pub mod report;
pub mod storage;
pub mod telemetry;
mod variables;

use std::ffi::OsString;
use std::path::PathBuf;

pub use budget::Budget;
pub use database::{Database, Migrate};
pub use gateway::{Gateway, SlotChoice};
pub use http::{Http, Listen};
pub use mistakes::Mistakes;
pub use report::Report;
pub use storage::Storage;
pub use telemetry::{Level, Telemetry};

use crate::model::member::Role;
use findings::Findings;
use variables::Variables;

/// Everything that the operator sets for a writer or a reader. A value of this type is valid as a whole.
#[derive(Clone, Debug)]
pub struct Config {
    /// `ARKVORY_ROLE`: `api` or `reader`; default `api`.
    pub role: Role,
    /// Where and how to listen.
    pub http: Http,
    /// The database.
    pub database: Database,
    /// The volume.
    pub storage: Storage,
    /// The shared profile; `None` = standalone, which only the writer can be.
    pub gateway: Option<Gateway>,
    /// Local limits of the download rate.
    pub budget: Budget,
    /// `ARKVORY_KEYS_FILE`: path of the keys file (docs/spec/environment.md 4.6); required.
    pub keys_file: PathBuf,
    /// Logs and traces.
    pub telemetry: Telemetry,
    /// Variables that are set and have no effect: one text each, to be logged once.
    pub warnings: Vec<String>,
    report: Report,
}

impl Config {
    /// The configuration of this process. Fails with every mistake in its environment.
    pub fn from_process() -> Result<Self, Mistakes> {
        Self::from_vars(std::env::vars_os())
    }

    /// The configuration that `vars` make. Fails with every mistake in them.
    pub fn from_vars(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Mistakes> {
        let mut findings = Findings::default();
        let found = Variables::sort(vars, &mut findings);
        let role = read_role(&found, &mut findings);
        let http = Http::read(&found, &mut findings);
        let database = Database::read(&found, &mut findings);
        let storage = Storage::read(&found, &mut findings);
        let gateway = Gateway::read(&found, role, &mut findings);
        let budget = Budget::read(&found, &mut findings);
        let keys_file = findings.required(&found.keys_file, "the path of the keys file", file::path);
        let telemetry = Telemetry::read(&found, &mut findings);

        let (warnings, report) = findings.finish()?;
        match (role, database, storage, keys_file) {
            (Some(role), Some(database), Some(storage), Some(keys_file)) => Ok(Self {
                role,
                http,
                database,
                storage,
                gateway,
                budget,
                keys_file,
                telemetry,
                warnings,
                report,
            }),
            _ => Err(Mistakes::default()),
        }
    }

    /// What is in force and where it came from, without secrets.
    pub const fn report(&self) -> &Report {
        &self.report
    }
}

/// `None` after a mistake only.
fn read_role(found: &Variables, findings: &mut Findings) -> Option<Role> {
    if !found.role.is_set() {
        findings.at_default(&found.role, Role::Api.as_str());
        return Some(Role::Api);
    }
    findings.given(&found.role, "api or reader", |text| {
        [Role::Api, Role::Reader].into_iter().find(|role| role.as_str() == text)
    })
}

#[cfg(test)]
mod tests;
