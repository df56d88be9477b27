//! The database (docs/spec/environment.md 4.1).

use std::ffi::OsString;

use secrecy::{ExposeSecret, SecretString};

use super::file;
use super::findings::Findings;
use super::report::{Origin, REDACTED};
use super::variables::Variables;
use super::{Mistakes, Telemetry};

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const ALLOWED_URL: &str = "it must start postgres:// or postgresql://";

/// How to reach PostgreSQL.
#[derive(Clone, Debug)]
pub struct Database {
    /// `ARKVORY_DATABASE_URL`, or the content of the file that `ARKVORY_DATABASE_URL_FILE` names; required. Starts
    /// `postgres://` or `postgresql://`; nothing else is known about it here.
    pub url: SecretString,
    /// `ARKVORY_DATABASE_POOL_SIZE`: connections for requests, 4 to 200; default 10. The long-lived sessions come on
    /// top.
    pub pool_size: u32,
}

impl Database {
    pub(super) fn read(found: &Variables, findings: &mut Findings) -> Option<Self> {
        let url = read_url(found, findings);
        let pool_size = findings.number(&found.database_pool_size, 10, 4..=200);
        Some(Self { url: url?, pool_size })
    }
}

fn read_url(found: &Variables, findings: &mut Findings) -> Option<SecretString> {
    let (direct, from_file) = (&found.database_url, &found.database_url_file);
    match (direct.is_set(), from_file.is_set()) {
        (false, false) => {
            findings.missing("ARKVORY_DATABASE_URL (or ARKVORY_DATABASE_URL_FILE)");
            return None;
        }
        (true, true) => {
            findings.mistake("Set only one of ARKVORY_DATABASE_URL and ARKVORY_DATABASE_URL_FILE".to_owned());
            return None;
        }
        _ => {}
    }
    let (variable, url, origin) = if let Some(path) = from_file.text() {
        match file::secret(path) {
            Ok(url) => (from_file, url, Origin::File),
            Err(problem) => {
                findings.invalid(from_file.name, &problem.to_string());
                return None;
            }
        }
    } else {
        (direct, direct.text()?.into(), Origin::Environment)
    };
    if !SCHEMES.iter().any(|scheme| url.expose_secret().starts_with(scheme)) {
        let allowed = match origin {
            Origin::File => "what is in the file must start postgres:// or postgresql://",
            _ => ALLOWED_URL,
        };
        findings.invalid(variable.name, allowed);
        return None;
    }
    findings.show(direct, REDACTED, origin);
    Some(url)
}

/// What `arkvory migrate` needs. It ignores every other variable, so that it can share an environment with a process.
#[derive(Clone, Debug)]
pub struct Migrate {
    /// As [`Database::url`], but with the login that may change the schema.
    pub url: SecretString,
    /// Logs and traces.
    pub telemetry: Telemetry,
}

impl Migrate {
    /// Reads this process's environment.
    pub fn from_process() -> Result<Self, Mistakes> {
        Self::from_vars(std::env::vars_os())
    }

    /// Reads `vars`.
    pub fn from_vars(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Mistakes> {
        const MINE: [&str; 4] = [
            "ARKVORY_DATABASE_URL",
            "ARKVORY_DATABASE_URL_FILE",
            "ARKVORY_LOG_LEVEL",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ];
        let mut findings = Findings::default();
        let mine = vars
            .into_iter()
            .filter(|(name, _)| MINE.iter().any(|mine| name == mine));
        let found = Variables::sort(mine, &mut findings);
        let url = read_url(&found, &mut findings);
        let telemetry = Telemetry::read(&found, &mut findings);
        findings.finish()?;
        url.map(|url| Self { url, telemetry }).ok_or_else(Mistakes::default)
    }
}
