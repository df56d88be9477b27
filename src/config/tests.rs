use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::report::Origin;
use super::*;
use crate::model::failure::{Classify, Kind};
use crate::model::member::Slot;

const TIB: u64 = 1 << 40;
const URL: (&str, &str) = ("DATABASE_URL", "postgres://u:sesame@db/arkvory");

/// A writer with nothing but what it needs.
const PLAIN: [(&str, &str); 3] = [URL, ("DATA_DIR", "/data"), ("KEYS_FILE", "/keys.json")];

/// A writer and a reader in the shared profile.
const WRITER: [(&str, &str); 6] = [
    URL,
    ("DATA_DIR", "/data"),
    ("KEYS_FILE", "/keys.json"),
    ("GATEWAY_SLOTS", "3"),
    ("GATEWAY_SLOT", "0"),
    ("SHARED_DOWNLOAD_BYTES_PER_SECOND", "196608"),
];
const READER: [(&str, &str); 7] = [
    URL,
    ("DATA_DIR", "/data"),
    ("KEYS_FILE", "/keys.json"),
    ("GATEWAY_SLOTS", "3"),
    ("GATEWAY_SLOT", "2"),
    ("SHARED_DOWNLOAD_BYTES_PER_SECOND", "196608"),
    ("ROLE", "reader"),
];

/// `base` with `changes`; `None` takes a variable away. Names are without the prefix.
fn load(base: &[(&str, &str)], changes: &[(&str, Option<&str>)]) -> Result<Config, Mistakes> {
    let kept = base
        .iter()
        .copied()
        .filter(|(name, _)| !changes.iter().any(|change| change.0 == *name));
    let added = changes
        .iter()
        .filter_map(|(name, value)| value.map(|value| (*name, value)));
    Config::from_vars(kept.chain(added).map(|(name, value)| (full(name), value.into())))
}

fn full(name: &str) -> OsString {
    if name.starts_with("OTEL_") {
        name.into()
    } else {
        format!("ARKVORY_{name}").into()
    }
}

fn texts(base: &[(&str, &str)], changes: &[(&str, Option<&str>)]) -> Vec<String> {
    load(base, changes).map_or_else(|mistakes| mistakes.texts().to_vec(), |_| Vec::new())
}

#[test]
fn defaults() {
    let config = load(&PLAIN, &[]).unwrap();
    assert_eq!(config.role, Role::Api);
    assert_eq!(config.http.address(), "127.0.0.1:8080".parse().unwrap());
    assert!(config.http.trusted_proxies.is_empty() && config.http.access_log);
    assert_eq!(config.http.drain, Duration::from_secs(30));
    assert_eq!(config.database.pool_size, 10);
    assert_eq!(config.storage.capacity, 10 * TIB);
    assert_eq!(config.storage.reserve, 1_073_741_824);
    assert_eq!(config.storage.max_object, 10_737_418_240_000);
    assert!(!config.storage.allow_uncertified);
    assert_eq!(config.gateway, None);
    assert_eq!(
        (config.budget.download_rate, config.budget.download_rate_per_principal),
        (0, 0)
    );
    assert_eq!(
        config.telemetry,
        Telemetry {
            level: Level::Info,
            otlp_endpoint: None
        }
    );
    assert!(config.warnings.is_empty());
}

#[test]
fn everything_set() {
    let config = load(
        &READER,
        &[
            ("HOST", Some("::")),
            ("PORT", Some("65535")),
            ("TRUSTED_PROXIES", Some("10.0.0.0/8, 192.168.1.1,fd00::/8")),
            ("ACCESS_LOG", Some("false")),
            ("DRAIN_TIMEOUT_MS", Some("0")),
            ("DATABASE_POOL_SIZE", Some("200")),
            ("CAPACITY_BYTES", Some("9007199254740991")),
            ("STORAGE_RESERVE_BYTES", Some("0")),
            ("MAX_OBJECT_BYTES", Some("1")),
            ("ALLOW_UNCERTIFIED_FS", Some("true")),
            ("GATEWAY_SLOT", Some("auto")),
            ("SHARED_DOWNLOAD_BYTES_PER_SECOND", Some("1099511627776")),
            ("SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", Some("196608")),
            ("DOWNLOAD_BYTES_PER_SECOND", Some("65536")),
            ("DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", Some("1099511627776")),
            ("LOG_LEVEL", Some("warning")),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", Some("http://collector:4318")),
        ],
    )
    .unwrap();
    assert_eq!(config.role, Role::Reader);
    assert_eq!(config.http.address(), "[::]:65535".parse().unwrap());
    assert_eq!(config.http.trusted_proxies.len(), 3);
    assert!(!config.http.access_log && config.http.drain.is_zero());
    assert_eq!(config.database.pool_size, 200);
    assert_eq!(config.storage.capacity, (1 << 53) - 1);
    assert_eq!((config.storage.reserve, config.storage.max_object), (0, 1));
    assert!(config.storage.allow_uncertified);
    let gateway = Gateway {
        slots: 3,
        slot: SlotChoice::Auto,
        total: TIB,
        per_principal: 196_608,
    };
    assert_eq!(config.gateway, Some(gateway));
    assert_eq!(
        (config.budget.download_rate, config.budget.download_rate_per_principal),
        (65_536, TIB)
    );
    assert_eq!(config.telemetry.level, Level::Warning);
    assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some("http://collector:4318"));
    let slot = |base: &[_]| load(base, &[]).unwrap().gateway.unwrap().slot;
    assert_eq!(slot(&WRITER), SlotChoice::Fixed(Slot::WRITER));
    assert_eq!(slot(&READER), SlotChoice::Fixed(Slot::new(2).unwrap()));
}

/// Values of one variable that are refused, as one mistake that starts so.
#[test]
fn bad_values() {
    let rates = [
        "-1",
        "1",
        "65535",
        "1e6",
        "6.5536e4",
        "Infinity",
        "65536.5",
        " 65536",
        "65536 ",
        "+65536",
        "065536",
        "1099511627777",
        "",
        "NaN",
        "18446744073709551616",
        "0x10000",
    ];
    let huge = "1".repeat(400);
    let table: &[(&str, &[&str])] = &[
        ("ROLE", &["", "writer", "API", "worker", "hub", "node", " api"]),
        ("HOST", &["", "localhost", "127.0.0.1:80", "[::1]", "256.0.0.1"]),
        ("PORT", &["0", "65536", "", "080", "+80", "80 ", "8e3", &huge]),
        (
            "DATABASE_URL",
            &["", "mysql://u@h/d", "POSTGRES://h/d", " postgres://h/d", "postgres:/h"],
        ),
        ("DATABASE_POOL_SIZE", &["3", "201", "1e1", "+10", " 10", "010", ""]),
        ("DATA_DIR", &[""]),
        ("KEYS_FILE", &[""]),
        ("CAPACITY_BYTES", &["0", "9007199254740992", "-1", ""]),
        ("STORAGE_RESERVE_BYTES", &["9007199254740992", "-1", ""]),
        ("MAX_OBJECT_BYTES", &["0", "10737418240001", ""]),
        ("ALLOW_UNCERTIFIED_FS", &["", "1", "yes", "TRUE"]),
        ("ACCESS_LOG", &["", "1", "on", "True"]),
        ("DRAIN_TIMEOUT_MS", &["3600001", "-1", "", "30s"]),
        ("LOG_LEVEL", &["", "warn", "INFO", "trace"]),
        (
            "TRUSTED_PROXIES",
            &["proxy", "10.0.0.0/33", "10.0.0.1,", ",", "10.0.0.1;10.0.0.2"],
        ),
        ("DOWNLOAD_BYTES_PER_SECOND", &rates),
        ("DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", &rates),
        ("SHARED_DOWNLOAD_BYTES_PER_SECOND", &rates),
        ("SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", &rates),
        ("GATEWAY_SLOTS", &["0", "1", "17", "256", "-3", "3.0", " 3", ""]),
        ("GATEWAY_SLOT", &["3", "16", "-1", "00", "0 ", "Auto", ""]),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            &[
                "collector:4318",
                "/v1",
                "ftp://c",
                "http://u:p@c",
                "http://c/?q",
                "http://",
            ],
        ),
    ];
    for (name, values) in table {
        for value in *values {
            let found = texts(&WRITER, &[(name, Some(value))]);
            let start = format!("Invalid {}: ", full(name).into_string().unwrap());
            assert!(
                found.len() == 1 && found[0].starts_with(&start),
                "{name}={value}: {found:?}"
            );
        }
    }
    let proxies = vec!["10.0.0.1"; 33].join(",");
    assert_eq!(texts(&PLAIN, &[("TRUSTED_PROXIES", Some(&proxies))]).len(), 1);
    assert!(load(&PLAIN, &[("TRUSTED_PROXIES", Some(&proxies[9..]))]).is_ok());
}

#[test]
fn what_is_missing() {
    assert_eq!(texts(&PLAIN, &[("DATA_DIR", None)]), ["Missing ARKVORY_DATA_DIR"]);
    assert_eq!(texts(&PLAIN, &[("KEYS_FILE", None)]), ["Missing ARKVORY_KEYS_FILE"]);
    assert_eq!(
        texts(&PLAIN, &[("DATABASE_URL", None)]),
        ["Missing ARKVORY_DATABASE_URL (or ARKVORY_DATABASE_URL_FILE)"]
    );
    assert_eq!(
        load(&PLAIN, &[("DATA_DIR", None)]).unwrap_err().kind(),
        Kind::InvalidInput
    );
}

/// Row by row the refusals of docs/spec/environment.md 4.2.
#[test]
fn gateway_refusals() {
    let slots = "Invalid ARKVORY_GATEWAY_SLOTS: a whole number from 2 to 16";
    let slot =
        "Invalid ARKVORY_GATEWAY_SLOT: a whole number from 0 to below ARKVORY_GATEWAY_SLOTS, or auto for a reader";
    let total = "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND";
    let floor =
        |name| format!("{name} is too low: each of the ARKVORY_GATEWAY_SLOTS needs at least 65536 bytes per second");
    let pair =
        "ARKVORY_ROLE and ARKVORY_GATEWAY_SLOT don't go together: api takes slot 0, a reader another one or auto";
    let per_principal = "SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL";
    let rate = "Invalid ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND: 0 or a whole number from 65536 to 1099511627776";

    for (change, text) in [
        (("GATEWAY_SLOT", None), "Missing ARKVORY_GATEWAY_SLOT"),
        (("GATEWAY_SLOT", Some("x")), slot),
        (("GATEWAY_SLOTS", None), slots),
        (("GATEWAY_SLOTS", Some("0")), slots),
        (("GATEWAY_SLOTS", Some("17")), slots),
        (("GATEWAY_SLOTS", Some("1")), slots),
        (("GATEWAY_SLOT", Some("3")), slot),
        (("SHARED_DOWNLOAD_BYTES_PER_SECOND", Some("65535")), rate),
        (("SHARED_DOWNLOAD_BYTES_PER_SECOND", Some("1099511627777")), rate),
        (("SHARED_DOWNLOAD_BYTES_PER_SECOND", Some("0")), &floor(total)),
        (("SHARED_DOWNLOAD_BYTES_PER_SECOND", Some("196607")), &floor(total)),
        (
            ("SHARED_DOWNLOAD_BYTES_PER_SECOND", None),
            "Missing ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND",
        ),
        (
            (per_principal, Some("196607")),
            &floor(&format!("ARKVORY_{per_principal}")),
        ),
        (
            (per_principal, Some("65536")),
            &floor(&format!("ARKVORY_{per_principal}")),
        ),
        (("GATEWAY_SLOT", Some("1")), pair),
        (("GATEWAY_SLOT", Some("auto")), pair),
        (("ROLE", Some("reader")), pair),
        (("ROLE", Some("worker")), "Invalid ARKVORY_ROLE: api or reader"),
    ] {
        assert_eq!(texts(&WRITER, &[change]), [text], "{change:?}");
    }
    assert_eq!(texts(&READER, &[("GATEWAY_SLOT", Some("0"))]), [pair]);
    assert_eq!(
        texts(&PLAIN, &[("ROLE", Some("reader"))]),
        [
            "A reader (ARKVORY_ROLE) can't run without the shared profile: set ARKVORY_GATEWAY_SLOTS, \
          ARKVORY_GATEWAY_SLOT and ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND"
        ]
    );
    // Any one of the four asks for the three.
    for (only, value) in [("GATEWAY_SLOTS", "3"), ("GATEWAY_SLOT", "0"), (per_principal, "0")] {
        let found = texts(&PLAIN, &[(only, Some(value))]);
        assert!(found.contains(&format!("Missing {total}")), "{only}: {found:?}");
        assert_eq!(found.len(), if only == per_principal { 3 } else { 2 }, "{found:?}");
    }
    assert!(load(&WRITER, &[(per_principal, Some("0"))]).is_ok());
}

#[test]
fn a_url_comes_from_one_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("url");
    let path = path.to_str().unwrap();
    std::fs::write(path, "postgresql://file/db\n").unwrap();
    let config = load(&PLAIN, &[("DATABASE_URL", None), ("DATABASE_URL_FILE", Some(path))]).unwrap();
    assert_eq!(config.database.url.expose_secret(), "postgresql://file/db");
    let entry = config
        .report()
        .entries()
        .iter()
        .find(|entry| entry.name == "ARKVORY_DATABASE_URL")
        .unwrap();
    assert_eq!((entry.shown.as_str(), entry.origin), ("[redacted]", Origin::File));

    let both = "Set only one of ARKVORY_DATABASE_URL and ARKVORY_DATABASE_URL_FILE";
    assert_eq!(texts(&PLAIN, &[("DATABASE_URL_FILE", Some(path))]), [both]);
    let file = |path: &str| texts(&PLAIN, &[("DATABASE_URL", None), ("DATABASE_URL_FILE", Some(path))]).join("|");
    assert_eq!(
        file("/no/such"),
        "Invalid ARKVORY_DATABASE_URL_FILE: the path of a readable file (ENOENT)"
    );
    std::fs::write(path, "mysql://file/db\n").unwrap();
    assert!(file(path).starts_with("Invalid ARKVORY_DATABASE_URL_FILE: "));
}

#[test]
fn names_that_are_not_served() {
    for name in [
        "MAX_UPLOADS",
        "MAX_DOWNLOADS",
        "TLS_CERT_FILE",
        "CORS_ORIGINS",
        "ALLOW_REGISTRATION",
        "WATCHDOG_SECONDS",
        "UPLOAD_DEADLINE_MS",
        "TRANSFER_QUEUE_LIMIT",
    ] {
        assert_eq!(
            texts(&PLAIN, &[(name, Some("2"))]),
            [format!("Invalid ARKVORY_{name}: not supported by this version")]
        );
    }
    let long = "X".repeat(500);
    for name in ["HOTS", "port", "ARKVORY_PORT", "", "PORT ", "BACKUPS", "A\nB", &long] {
        let found = texts(&PLAIN, &[(name, Some("1"))]);
        assert!(
            found.len() == 1 && found[0].starts_with("Unknown ARKVORY_"),
            "{found:?}"
        );
        assert!(!found[0].contains('\n') && found[0].len() < 100);
    }
    for name in [
        "HUB_URL",
        "HUB_PROJECT",
        "UPDATE_CONTROL_DIR",
        "MIRRORS_FILE",
        "WEBHOOKS_FILE",
        "BACKUP_DIR",
        "WEB_DIR",
        "REPLICA_SOCKET",
        "TOKEN",
        "CLIENT_DNS",
    ] {
        let warnings = load(&PLAIN, &[(name, Some("x"))]).unwrap().warnings;
        assert!(
            warnings.len() == 1 && warnings[0].starts_with(&format!("ARKVORY_{name} has no effect")),
            "{warnings:?}"
        );
    }
    assert!(
        load(&PLAIN, &[("OTEL_EXPORTER_OTLP_ENDPOINT", Some(""))])
            .unwrap()
            .telemetry
            .otlp_endpoint
            .is_none()
    );
}

#[test]
fn several_mistakes_at_once() {
    let found = texts(
        &[],
        &[
            ("ROLE", Some("reader")),
            ("PORT", Some("0")),
            ("HOST", Some("x")),
            ("MAX_UPLOADS", Some("1")),
            ("TYPO", Some("")),
        ],
    );
    assert_eq!(found.len(), 8, "{found:?}");
}

#[test]
fn text_that_is_not_utf_8() {
    for name in [
        "PORT",
        "DATA_DIR",
        "DATABASE_URL",
        "GATEWAY_SLOT",
        "SHARED_DOWNLOAD_BYTES_PER_SECOND",
        "DATABASE_URL_FILE",
    ] {
        let kept = WRITER
            .iter()
            .filter(|(other, _)| *other != name && (*other, name) != ("DATABASE_URL", "DATABASE_URL_FILE"));
        let vars = kept.map(|(name, value)| (full(name), value.into()));
        let found = Config::from_vars(vars.chain([(full(name), OsString::from_vec(vec![b'1', 0xff]))])).unwrap_err();
        assert_eq!(found.texts(), [format!("Invalid ARKVORY_{name}: text in UTF-8")]);
    }
    let foreign = (OsString::from_vec(vec![0xff]), OsString::from_vec(vec![0xff]));
    let vars = PLAIN.iter().map(|(name, value)| (full(name), value.into()));
    assert!(Config::from_vars(vars.chain([foreign])).is_ok());
}

#[test]
fn the_report_shows_what_is_in_force() {
    let config = load(
        &READER,
        &[
            ("PORT", Some("81")),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", Some("http://c:4318/x")),
        ],
    )
    .unwrap();
    let shown = |name: &str| {
        let entry = config
            .report()
            .entries()
            .iter()
            .find(|entry| entry.name == name)
            .unwrap();
        (entry.shown.clone(), entry.origin)
    };
    assert_eq!(shown("ARKVORY_PORT"), ("81".into(), Origin::Environment));
    assert_eq!(shown("ARKVORY_DRAIN_TIMEOUT_MS"), ("30000".into(), Origin::Default));
    assert_eq!(
        shown("ARKVORY_DATABASE_URL"),
        ("[redacted]".into(), Origin::Environment)
    );
    assert_eq!(
        shown("OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("c:4318".into(), Origin::Environment)
    );
    assert_eq!(config.report().entries().len(), 22);
    assert!(
        config
            .report()
            .to_string()
            .starts_with("ROLE=reader PORT=81 DATABASE_URL=[redacted] DATA_DIR=/data ")
    );
    let everything = format!("{config:?} {:?} {}", config.report(), config.report());
    assert!(!everything.contains("sesame"), "{everything}");
}

#[test]
fn the_address_alone() {
    let vars = [("HOST", "0.0.0.0"), ("PORT", "81"), ("ROLE", "nonsense"), ("TYPO", "1")];
    let listen = Listen::from_vars(vars.map(|(name, value)| (full(name), value.into()))).unwrap();
    assert_eq!(listen.local(), "127.0.0.1:81".parse().unwrap());
    assert!(Listen::from_vars([(full("PORT"), "x".into())]).is_err());
    assert_eq!(
        Listen::from_vars([]).unwrap().local(),
        "127.0.0.1:8080".parse().unwrap()
    );
}

#[test]
fn the_url_alone() {
    let vars = [URL, ("LOG_LEVEL", "debug"), ("ROLE", "nonsense"), ("TYPO", "1")];
    let migrate = Migrate::from_vars(vars.map(|(name, value)| (full(name), value.into()))).unwrap();
    assert_eq!(
        (migrate.url.expose_secret(), migrate.telemetry.level),
        (URL.1, Level::Debug)
    );
    assert_eq!(Migrate::from_vars([]).unwrap_err().texts().len(), 1);
}

const NAMES: &[&str] = &[
    "ACCESS_LOG",
    "ALLOW_UNCERTIFIED_FS",
    "CAPACITY_BYTES",
    "DATA_DIR",
    "DATABASE_POOL_SIZE",
    "DATABASE_URL",
    "DATABASE_URL_FILE",
    "DOWNLOAD_BYTES_PER_SECOND",
    "DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL",
    "DRAIN_TIMEOUT_MS",
    "GATEWAY_SLOT",
    "GATEWAY_SLOTS",
    "HOST",
    "KEYS_FILE",
    "LOG_LEVEL",
    "MAX_OBJECT_BYTES",
    "PORT",
    "ROLE",
    "SHARED_DOWNLOAD_BYTES_PER_SECOND",
    "SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL",
    "STORAGE_RESERVE_BYTES",
    "TRUSTED_PROXIES",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "MAX_UPLOADS",
    "TLS_KEY_FILE",
    "HUB_URL",
    "BACKUP_X",
    "TYPO",
    "TOKEN",
];

proptest! {
    #[test]
    fn no_value_is_ever_in_a_text(
        names in proptest::sample::subsequence(NAMES, 0..=NAMES.len()),
        shape in proptest::sample::select(vec!["CANARY", "postgres://CANARY", "CANARY\u{0}", "1CANARY", "http://CANARY@h"]),
    ) {
        match Config::from_vars(names.iter().map(|name| (full(name), shape.into()))) {
            Ok(config) => prop_assert!(!config.warnings.join("").contains("CANARY")),
            Err(mistakes) => {
                let all = format!("{mistakes}{mistakes:?}{}{:?}", mistakes.reason(), mistakes.texts());
                prop_assert!(!mistakes.texts().is_empty());
                prop_assert!(!all.contains("CANARY"), "{}", all);
                for text in mistakes.texts() {
                    prop_assert!(text.contains("ARKVORY_") || text.contains("OTEL_"), "{}", text);
                }
            }
        }
    }
}
