//! Settings that are refused, and what a refusal says (docs/spec/environment.md).

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use crate::process::{Launch, Refusal};
use crate::site::{Site, sha256};

const SLOT: &str = "ARKVORY_GATEWAY_SLOT";
const SLOTS: &str = "ARKVORY_GATEWAY_SLOTS";
const TOTAL: &str = "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND";
const PRINCIPAL: &str = "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL";

/// Fails unless `launch` is refused with a text that has all of `texts`, and none of the values in it.
async fn refused(launch: Launch<'_>, values: &[&str], texts: &[&str]) -> Refusal {
    let refusal = launch.refused().await;
    assert_eq!(refusal.code, Some(1), "{refusal:#?}");
    for text in texts {
        assert!(
            refusal.stderr.contains(text),
            "{text:?} is not on standard error: {refusal:#?}"
        );
        assert!(
            refusal.reason().contains(text),
            "{text:?} is not in the reason: {refusal:#?}"
        );
    }
    for value in values.iter().filter(|value| value.len() > 3) {
        assert!(!refusal.stderr.contains(value), "{value:?} is shown: {refusal:#?}");
        assert!(
            !refusal.line.to_string().contains(value),
            "{value:?} is shown: {refusal:#?}"
        );
    }
    refusal
}

/// docs/spec/environment.md 4.1, 4.3 to 4.5: one mistake at a time.
#[tokio::test]
async fn every_mistake_names_its_variable_and_never_its_value() {
    let site = Site::new().await;
    for name in ["ARKVORY_DATABASE_URL", "ARKVORY_DATA_DIR", "ARKVORY_KEYS_FILE"] {
        refused(site.standalone().unset(name), &[], &["Missing", name]).await;
    }
    let rate = [
        "-1",
        "1",
        "65535",
        "1e6",
        "Infinity",
        "70000.5",
        " 70000",
        "070000",
        "+70000",
        "1099511627777",
        "zanzibar",
        "",
    ];
    let flag = ["TRUE", "1", "yes", "", "zanzibar"];
    let table: [(&str, &[&str]); 17] = [
        ("ARKVORY_DATABASE_URL", &["mysql://zanzibar", "zanzibar", ""]),
        ("ARKVORY_DATA_DIR", &[""]),
        ("ARKVORY_KEYS_FILE", &[""]),
        ("ARKVORY_HOST", &["zanzibar", "localhost", "127.0.0.1:80", ""]),
        ("ARKVORY_PORT", &["0", "65536", "-1", "08080", "8080.0", "zanzibar", ""]),
        (
            "ARKVORY_DATABASE_POOL_SIZE",
            &["3", "201", "1e1", "+10", " 10", "010", "zanzibar", ""],
        ),
        ("ARKVORY_ROLE", &["writer", "API", "zanzibar", "Reader", ""]),
        ("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", &rate),
        ("ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", &rate),
        (
            "ARKVORY_CAPACITY_BYTES",
            &["0", "-1", "9007199254740992", "1e9", "zanzibar", ""],
        ),
        (
            "ARKVORY_STORAGE_RESERVE_BYTES",
            &["-1", "9007199254740992", "00", "zanzibar", ""],
        ),
        ("ARKVORY_MAX_OBJECT_BYTES", &["0", "10737418240001", "zanzibar", ""]),
        ("ARKVORY_ALLOW_UNCERTIFIED_FS", &flag),
        (
            "ARKVORY_TRUSTED_PROXIES",
            &["zanzibar", "proxy.example", "10.0.0.0/33", "10.0.0.1,,10.0.0.2"],
        ),
        ("ARKVORY_LOG_LEVEL", &["WARN", "INFO", "trace", "zanzibar", ""]),
        ("ARKVORY_ACCESS_LOG", &flag),
        ("ARKVORY_DRAIN_TIMEOUT_MS", &["-1", "3600001", "30s", "zanzibar", ""]),
    ];
    for (name, values) in table {
        for value in values {
            refused(site.standalone().set(name, value), &[value], &["Invalid", name]).await;
        }
    }
    assert!(!site.data().exists(), "nothing was touched");
}

/// docs/spec/environment.md 4.2: the table of refusals.
#[tokio::test]
async fn the_gateway_settings_belong_together() {
    let site = Site::new().await;
    // 4.2a, 4.2c, 4.2e: one of the four needs the others.
    refused(site.writer().unset(SLOT), &[], &["Missing", SLOT]).await;
    refused(site.writer().unset(TOTAL), &[], &["Missing", TOTAL]).await;
    refused(site.writer().unset(SLOTS), &[], &["Invalid", SLOTS]).await;
    refused(site.standalone().set(PRINCIPAL, "0"), &[], &[SLOT, SLOTS, TOTAL]).await;
    // 4.2b
    for slot in ["-1", "00", "+0", "0.0", "any", "AUTO", "zanzibar", ""] {
        refused(site.writer().set(SLOT, slot), &[slot], &["Invalid", SLOT]).await;
    }
    refused(site.writer().set(SLOT, "auto"), &[], &[SLOT]).await;
    // 4.2c, 4.2d
    for slots in ["0", "1", "17", "zanzibar", "03", ""] {
        refused(site.writer().set(SLOTS, slots), &[slots], &["Invalid", SLOTS]).await;
    }
    refused(site.reader(3), &[], &["Invalid", SLOT]).await;
    // 4.2f
    for name in [TOTAL, PRINCIPAL] {
        for rate in ["1", "65535", "1e6", "-1", "196608.0", "1099511627777", "zanzibar", ""] {
            refused(site.writer().set(name, rate), &[rate], &["Invalid", name]).await;
        }
        // 4.2g
        for rate in ["65536", "196607"] {
            refused(site.writer().set(name, rate), &[], &["65536", name]).await;
        }
    }
    refused(site.writer().set(TOTAL, "0"), &[], &["65536", TOTAL]).await;
    // 4.2h
    refused(site.writer().set(SLOT, "1"), &[], &["ARKVORY_ROLE", SLOT]).await;
    refused(site.reader(0), &[], &["ARKVORY_ROLE", SLOT]).await;
    // 4.2i
    let alone = site.standalone().set("ARKVORY_ROLE", "reader");
    refused(alone, &[], &["ARKVORY_ROLE", SLOT, SLOTS, TOTAL]).await;
    assert!(!site.data().exists(), "nothing was touched");
}

/// docs/spec/environment.md 4.0.3 and docs/spec/cases.md 9.11.7.
#[tokio::test]
async fn all_mistakes_are_reported_at_once() {
    let site = Site::new().await;
    let mistakes = [
        ("ARKVORY_HOST", "zanzibar-1"),
        ("ARKVORY_DATABASE_POOL_SIZE", "zanzibar-2"),
        ("ARKVORY_DOWNLOAD_BYTES_PER_SECOND", "zanzibar-3"),
        ("ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", "zanzibar-4"),
        ("ARKVORY_CAPACITY_BYTES", "zanzibar-5"),
        ("ARKVORY_STORAGE_RESERVE_BYTES", "zanzibar-6"),
        ("ARKVORY_MAX_OBJECT_BYTES", "zanzibar-7"),
        ("ARKVORY_ALLOW_UNCERTIFIED_FS", "zanzibar-8"),
        ("ARKVORY_TRUSTED_PROXIES", "zanzibar-9"),
        ("ARKVORY_LOG_LEVEL", "zanzibar-10"),
        ("ARKVORY_ACCESS_LOG", "zanzibar-11"),
        ("ARKVORY_DRAIN_TIMEOUT_MS", "zanzibar-12"),
        ("ARKVORY_GATEWAY_SLOTS", "zanzibar-13"),
        ("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND", "zanzibar-14"),
        ("ARKVORY_NO_SUCH_THING", "zanzibar-15"),
    ];
    let mut launch = site
        .standalone()
        .unset("ARKVORY_DATABASE_URL")
        .unset("ARKVORY_DATA_DIR")
        .unset("ARKVORY_KEYS_FILE");
    for (name, value) in mistakes {
        launch = launch.set(name, value);
    }
    let refusal = launch.refused().await;
    assert_eq!(refusal.code, Some(1));
    let missing = ["ARKVORY_DATABASE_URL", "ARKVORY_DATA_DIR", "ARKVORY_KEYS_FILE", SLOT];
    for name in mistakes.iter().map(|(name, _)| *name).chain(missing) {
        assert!(
            refusal.stderr.contains(name),
            "{name} is not on standard error: {refusal:#?}"
        );
    }
    assert!(!refusal.stderr.contains("zanzibar"), "{refusal:#?}");
    // The field of the log line is cut, and says so (docs/spec/environment.md 4.7).
    assert!(
        refusal.reason().chars().count() <= 256 && refusal.reason().contains("more"),
        "{refusal:#?}"
    );
    assert!(!refusal.line.to_string().contains("zanzibar"));
}

/// docs/spec/environment.md 4.0.5.
#[tokio::test]
async fn unknown_names_are_mistakes_and_foreign_ones_are_warnings() {
    let site = Site::new().await;
    for name in ["ARKVORY_MAX_UPLAODS", "ARKVORY_", "ARKVORY_data_dir"] {
        refused(site.standalone().set(name, "zanzibar"), &["zanzibar"], &[name]).await;
    }
    // To take a setting that is not served yet would be a promise not kept.
    for name in ["ARKVORY_TLS_CERT_FILE", "ARKVORY_CORS_ORIGINS", "ARKVORY_MAX_DOWNLOADS"] {
        refused(site.standalone().set(name, "zanzibar"), &["zanzibar"], &[name]).await;
    }
    let launch = site
        .standalone()
        .set("ARKVORY_HUB_URL", "zanzibar")
        .set("ARKVORY_BACKUP_TARGET", "zanzibar");
    let launch = launch.set("UNRELATED", "zanzibar").allow("config.ignored");
    let writer = launch.start().await;
    let warnings: Vec<String> = writer
        .log()
        .iter()
        .filter(|line| line["code"] == "config.ignored")
        .map(ToString::to_string)
        .collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for name in ["ARKVORY_HUB_URL", "ARKVORY_BACKUP_TARGET"] {
        assert!(
            warnings.iter().any(|warning| warning.contains(name)),
            "{name}: {warnings:?}"
        );
    }
    assert!(!writer.log().iter().any(|line| line.to_string().contains("zanzibar")));
}

/// docs/spec/environment.md 4.0.8.
#[tokio::test]
async fn the_database_url_may_come_from_a_file() {
    let site = Site::new().await;
    let file = site.folder().join("database-url");
    std::fs::write(&file, format!("{}\n", site.database.url)).unwrap();
    let path = file.to_str().unwrap();
    let both = site.standalone().set("ARKVORY_DATABASE_URL_FILE", path);
    refused(
        both,
        &[path, &site.database.url],
        &["ARKVORY_DATABASE_URL", "ARKVORY_DATABASE_URL_FILE"],
    )
    .await;
    let from_file = |path: &str| {
        site.standalone()
            .unset("ARKVORY_DATABASE_URL")
            .set("ARKVORY_DATABASE_URL_FILE", path)
    };
    let writer = from_file(path).start().await;
    drop(writer);
    site.released().await;
    let absent = format!("{path}-zanzibar");
    refused(
        from_file(&absent),
        &[&absent],
        &["Invalid", "ARKVORY_DATABASE_URL_FILE", "ENOENT"],
    )
    .await;
    std::fs::write(&file, "mysql://zanzibar").unwrap();
    refused(
        from_file(path),
        &[path, "zanzibar"],
        &["Invalid", "ARKVORY_DATABASE_URL_FILE"],
    )
    .await;
}

/// docs/spec/environment.md 4.5 and 4.6.
#[tokio::test]
async fn a_keys_file_is_read_strictly() {
    let site = Site::new().await;
    let file = site.folder().join("other-keys.json");
    let path = file.to_str().unwrap();
    let with = |text: &str| {
        std::fs::write(&file, text).unwrap();
        site.standalone().set("ARKVORY_KEYS_FILE", path)
    };
    let names = ["Invalid", "ARKVORY_KEYS_FILE"];
    let absent = format!("{path}-zanzibar");
    refused(
        site.standalone().set("ARKVORY_KEYS_FILE", &absent),
        &[&absent],
        &["ARKVORY_KEYS_FILE", "ENOENT"],
    )
    .await;
    let folder = site.folder().to_str().unwrap();
    refused(
        site.standalone().set("ARKVORY_KEYS_FILE", folder),
        &[folder],
        &["ARKVORY_KEYS_FILE", "EISDIR"],
    )
    .await;
    let digest = sha256("zanzibar");
    let entry =
        format!(r#"{{"id":"zanzibar","sha256":"{digest}","repositories":["releases"],"permissions":["read"]}}"#);
    for text in [
        "",
        "zanzibar",
        "{}",
        "[]",
        "[{}]",
        r#"{"zanzibar":1}"#,
        &format!("[{entry},{entry}]"),
        &format!("[{}]", entry.replace(&digest, &digest.to_uppercase())),
        &format!("[{}]", entry.replace(&digest, "zanzibar")),
        &format!("[{}]", entry.replace("[\"read\"]", "[\"zanzibar\"]")),
        &format!("[{}]", entry.replace("releases", "Zanzibar!")),
        &format!("[{}]", entry.replace("\"zanzibar\"", "\"zanzibar zanzibar\"")),
        &format!("[{}]", entry.replace("\"sha256\"", "\"zanzibar\":1,\"sha256\"")),
        &format!("[{entry}]{}", " ".repeat(1 << 20)),
    ] {
        refused(with(text), &["zanzibar", "Zanzibar", &digest, path], &names).await;
    }
    site.released().await;
    let writer = with(&format!("[{entry}]")).start().await;
    // The secret itself is too short for a credential, so nobody gets in with it.
    writer
        .get("/api/v1/auth/me")
        .key("zanzibar")
        .answer()
        .await
        .expect(401, "unauthorized", "credential_invalid");
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let site = Site::new().await;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let refusal = refused(
        site.standalone().set("ARKVORY_PORT", &port.to_string()),
        &[],
        &["ARKVORY_PORT"],
    )
    .await;
    assert!(refusal.log.iter().all(|line| line["code"] != "api.listening"));
    // Nothing stays locked (docs/spec/leases.md 5.6.10).
    site.released().await;
    site.standalone().start().await;
}

/// A database that refuses is told at once, and no driver's text comes through (docs/spec/cases.md 9.11.8).
#[tokio::test]
async fn a_database_that_is_not_there_is_refused_without_its_address() {
    let site = Site::new().await;
    let url = format!("{}-zanzibar", site.database.url);
    let launch = site.standalone().set("ARKVORY_DATABASE_URL", &url);
    let began = tokio::time::Instant::now();
    let refusal = refused(launch, &[&url, "zanzibar", "postgres://"], &[]).await;
    assert!(
        began.elapsed() < Duration::from_secs(20) && !refusal.reason().is_empty(),
        "{refusal:#?}"
    );
}
