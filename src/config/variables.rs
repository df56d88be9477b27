//! Which variables there are, and which of them are set.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::findings::Findings;

const PREFIX: &str = "ARKVORY_";
const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Settings of the product that this version doesn't serve. To ignore them would be a promise not kept.
const NOT_YET: &[&str] = &[
    "ARKVORY_ADVERTISE",
    "ARKVORY_ADVERTISE_EXTERNAL",
    "ARKVORY_ALLOW_REGISTRATION",
    "ARKVORY_CORS_ORIGINS",
    "ARKVORY_INTERNAL_PORT",
    "ARKVORY_INTERNAL_SECRET_FILE",
    "ARKVORY_MAX_DOWNLOADS",
    "ARKVORY_MAX_DOWNLOADS_PER_PRINCIPAL",
    "ARKVORY_MAX_REQUESTS",
    "ARKVORY_MAX_UPLOADS",
    "ARKVORY_MAX_UPLOADS_PER_PRINCIPAL",
    "ARKVORY_NODE_TARGET",
    "ARKVORY_TLS_CERT_FILE",
    "ARKVORY_TLS_KEY_FILE",
    "ARKVORY_TLS_MIN_VERSION",
    "ARKVORY_TLS_RELOAD_SECONDS",
    "ARKVORY_TRANSFER_QUEUE_LIMIT",
    "ARKVORY_TRANSFER_QUEUE_PER_PRINCIPAL",
    "ARKVORY_TRANSFER_QUEUE_TIMEOUT_MS",
    "ARKVORY_UPLOAD_BYTES_PER_SECOND",
    "ARKVORY_UPLOAD_BYTES_PER_SECOND_PER_PRINCIPAL",
    "ARKVORY_UPLOAD_DEADLINE_MS",
    "ARKVORY_UPLOAD_IDLE_TIMEOUT_MS",
    "ARKVORY_WATCHDOG_SECONDS",
];

/// Names of the product that are outside this program's scope: a warning, no mistake.
const ELSEWHERE: &[&str] = &[
    "ARKVORY_HUB_PROJECT",
    "ARKVORY_HUB_URL",
    "ARKVORY_MIRRORS_FILE",
    "ARKVORY_REPLICA_SOCKET",
    "ARKVORY_UPDATE_CONTROL_DIR",
    "ARKVORY_WEBHOOKS_FILE",
    "ARKVORY_WEB_DIR",
];
const ELSEWHERE_PREFIX: &str = "ARKVORY_BACKUP_";

/// Names that only the command line reads: a warning, no mistake.
const COMMAND_LINE: &[&str] = &["ARKVORY_SERVER", "ARKVORY_TOKEN", "ARKVORY_TOKEN_FILE"];
const COMMAND_LINE_PREFIX: &str = "ARKVORY_CLIENT_";

/// One variable of the environment.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Unset,
    /// Set to something that a mistake has been recorded about already.
    Spoiled,
    Text(String),
}

impl Variable {
    /// Whether it is set, to whatever.
    pub(super) const fn is_set(&self) -> bool {
        !matches!(self.value, Value::Unset)
    }

    /// Its text, if it is set to one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// What a name is to this program.
enum Name {
    Served(&'static str),
    NotYet(&'static str),
    Ignored(&'static str),
    Unknown,
    Foreign,
}

macro_rules! variables {
    ($($field:ident = $name:literal,)*) => {
        /// What envy fills: names without prefix, in lower case.
        #[derive(Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Flat {
            $($field: Option<String>,)*
        }

        /// Every variable that is served.
        #[derive(Debug)]
        pub(super) struct Variables {
            $(pub(super) $field: Variable,)*
            pub(super) otlp_endpoint: Variable,
        }

        const SERVED: &[&str] = &[$($name,)* OTLP_ENDPOINT];

        impl Variables {
            fn new(mut flat: Flat, mut take: impl FnMut(&'static str, Option<String>) -> Variable) -> Self {
                Self {
                    $($field: take($name, flat.$field.take()),)*
                    otlp_endpoint: take(OTLP_ENDPOINT, None),
                }
            }
        }
    };
}

variables! {
    access_log = "ARKVORY_ACCESS_LOG",
    allow_uncertified_fs = "ARKVORY_ALLOW_UNCERTIFIED_FS",
    capacity_bytes = "ARKVORY_CAPACITY_BYTES",
    data_dir = "ARKVORY_DATA_DIR",
    database_pool_size = "ARKVORY_DATABASE_POOL_SIZE",
    database_url = "ARKVORY_DATABASE_URL",
    database_url_file = "ARKVORY_DATABASE_URL_FILE",
    download_bytes_per_second = "ARKVORY_DOWNLOAD_BYTES_PER_SECOND",
    download_bytes_per_second_per_principal = "ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL",
    drain_timeout_ms = "ARKVORY_DRAIN_TIMEOUT_MS",
    gateway_slot = "ARKVORY_GATEWAY_SLOT",
    gateway_slots = "ARKVORY_GATEWAY_SLOTS",
    host = "ARKVORY_HOST",
    keys_file = "ARKVORY_KEYS_FILE",
    log_level = "ARKVORY_LOG_LEVEL",
    max_object_bytes = "ARKVORY_MAX_OBJECT_BYTES",
    port = "ARKVORY_PORT",
    role = "ARKVORY_ROLE",
    shared_download_bytes_per_second = "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND",
    shared_download_bytes_per_second_per_principal = "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL",
    storage_reserve_bytes = "ARKVORY_STORAGE_RESERVE_BYTES",
    trusted_proxies = "ARKVORY_TRUSTED_PROXIES",
}

impl Variables {
    /// Sorts `vars`: what is served is kept, what is not is a mistake or a warning.
    pub(super) fn sort(vars: impl IntoIterator<Item = (OsString, OsString)>, findings: &mut Findings) -> Self {
        let mut texts = BTreeMap::new();
        let mut spoiled = BTreeSet::new();
        for (name, value) in vars {
            let name = name.to_string_lossy();
            match recognize(&name) {
                Name::Served(name) => match value.into_string() {
                    Err(_) => {
                        spoiled.insert(name);
                        findings.invalid(name, "text in UTF-8");
                    }
                    Ok(text) => {
                        if texts.insert(name, text).is_some() {
                            spoiled.insert(name);
                            findings.invalid(name, "it may be set only once");
                        }
                    }
                },
                Name::NotYet(name) => findings.invalid(name, "not supported by this version"),
                Name::Ignored(why) => findings.warn(format!("{} has no effect here: {why}", printable(&name))),
                Name::Unknown => findings.mistake(format!("Unknown {}", printable(&name))),
                Name::Foreign => {}
            }
        }
        texts.retain(|name, _| !spoiled.contains(name));
        let mut endpoint = texts.remove(OTLP_ENDPOINT).filter(|text| !text.is_empty());
        let texts = texts.into_iter().map(|(name, text)| (name.to_owned(), text));
        let flat = envy::prefixed(PREFIX).from_iter(texts).unwrap_or_else(|_| {
            // Only names of `SERVED` get this far, each once: a test reads them all.
            findings.mistake("The variables of the environment can't be read".to_owned());
            Flat::default()
        });
        Self::new(flat, |name, text| Variable {
            name,
            value: match text.or_else(|| endpoint.take_if(|_| name == OTLP_ENDPOINT)) {
                Some(text) => Value::Text(text),
                None if spoiled.contains(name) => Value::Spoiled,
                None => Value::Unset,
            },
        })
    }
}

fn recognize(name: &str) -> Name {
    let within = |list: &[&'static str]| list.iter().copied().find(|known| *known == name);
    if let Some(name) = within(SERVED) {
        Name::Served(name)
    } else if !name.starts_with(PREFIX) {
        Name::Foreign
    } else if let Some(name) = within(NOT_YET) {
        Name::NotYet(name)
    } else if within(ELSEWHERE).is_some() || name.starts_with(ELSEWHERE_PREFIX) {
        Name::Ignored("it is outside the scope of this program")
    } else if within(COMMAND_LINE).is_some() || name.starts_with(COMMAND_LINE_PREFIX) {
        Name::Ignored("only the command line reads it")
    } else {
        Name::Unknown
    }
}

/// A name that someone made up, fit for a line of text.
fn printable(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envy_knows_every_served_name() {
        let mut findings = Findings::default();
        let vars = SERVED
            .iter()
            .map(|name| (OsString::from(name), OsString::from(format!("<{name}>"))));
        let found = Variables::sort(vars, &mut findings);
        assert!(findings.finish().is_ok());
        assert_eq!(found.port.text(), Some("<ARKVORY_PORT>"));
        assert_eq!(found.otlp_endpoint.text(), Some("<OTEL_EXPORTER_OTLP_ENDPOINT>"));
        assert_eq!(format!("{found:?}").matches("Text(").count(), SERVED.len());
        for name in SERVED {
            assert!(
                format!("{found:?}").contains(&format!("name: \"{name}\", value: Text(\"<{name}>\")")),
                "{name}"
            );
        }
    }

    #[test]
    fn no_name_is_in_two_lists() {
        let all = [SERVED, NOT_YET, ELSEWHERE, COMMAND_LINE].concat();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
