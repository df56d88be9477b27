//! Who may start beside whom (docs/spec/leases.md 5.3, 5.6 and docs/spec/cases.md 9.2), with real processes.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::process::Process;
use crate::site::{Site, key};

const SLOTS: &str = "ARKVORY_GATEWAY_SLOTS";
const TOTAL: &str = "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND";

async fn slot_of(process: &Process) -> i64 {
    let ready = process.get("/health/ready").key(key::HEALTH).answer().await;
    ready.json()["sharedDownloads"]["slot"].as_i64().unwrap()
}

/// Generation of a slot, and milliseconds until its reservation ends.
async fn lease(site: &Site, slot: i32) -> (i64, i64) {
    let query = "SELECT generation, (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint
                 FROM arkvory_gateway_leases WHERE slot = $1";
    sqlx::query_as(query)
        .bind(slot)
        .fetch_one(&mut site.db().await)
        .await
        .unwrap()
}

async fn policies(site: &Site) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM arkvory_download_policy")
        .fetch_one(&mut site.db().await)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_writer_makes_its_directory() {
    let site = Site::new().await;
    let writer = site.standalone().start().await;
    for folder in ["blobs", "staging", "parts"] {
        assert!(site.data().join(folder).is_dir(), "{folder}");
    }
    let id = std::fs::read_to_string(site.data().join("storage-id")).unwrap();
    let id = uuid::Uuid::parse_str(id.trim()).unwrap();
    assert_eq!(id.get_version_num(), 4);
    let stored: uuid::Uuid = sqlx::query_scalar("SELECT storage_id FROM arkvory_storage_identity")
        .fetch_one(&mut site.db().await)
        .await
        .unwrap();
    assert_eq!(id, stored);
    let listening: Vec<_> = writer
        .log()
        .into_iter()
        .filter(|line| line["code"] == "api.listening")
        .collect();
    assert_eq!(listening.len(), 1);
    assert_eq!(listening[0]["address"], "127.0.0.1");
    assert_eq!(listening[0]["port"], writer.address.port());
    assert_eq!(listening[0]["tls"], false);
    assert_eq!(listening[0]["pid"], writer.pid());
}

/// docs/spec/cases.md 9.10.5, in both profiles.
#[tokio::test]
async fn a_second_writer_is_busy() {
    for gateway in [false, true] {
        let site = Site::new().await;
        let launch = || if gateway { site.writer() } else { site.standalone() };
        let mut first = launch().start().await;
        let second = launch().refused().await;
        second.expect("busy", &[]);
        assert!(first.runs());
        assert_eq!(first.get("/health/status").answer().await.status, 200);
    }
}

/// docs/spec/leases.md 5.6h.
#[tokio::test]
async fn another_directory_is_a_conflict() {
    let site = Site::new().await;
    drop(site.standalone().start().await);
    site.released().await;
    let elsewhere = site.folder().join("elsewhere");
    let elsewhere = elsewhere.to_str().unwrap();
    let refusal = site.standalone().set("ARKVORY_DATA_DIR", elsewhere).refused().await;
    refusal.expect("conflict", &["ARKVORY_DATA_DIR"]);
    // A damaged identity is none.
    let id = site.data().join("storage-id");
    let kept = std::fs::read(&id).unwrap();
    std::fs::remove_file(&id).unwrap();
    std::fs::write(&id, "zanzibar").unwrap();
    site.released().await;
    site.standalone()
        .refused()
        .await
        .expect("conflict", &["ARKVORY_DATA_DIR"]);
    std::fs::write(&id, kept).unwrap();
    site.released().await;
    site.standalone().start().await;
}

/// docs/spec/cases.md 9.2.5.
#[tokio::test]
async fn a_reader_on_an_empty_directory_leaves_it_empty() {
    let site = Site::new().await;
    std::fs::create_dir(site.data()).unwrap();
    let refusal = site.reader(1).refused().await;
    refusal.expect("unavailable", &["ARKVORY_DATA_DIR"]);
    assert_eq!(std::fs::read_dir(site.data()).unwrap().count(), 0);
    std::fs::remove_dir(site.data()).unwrap();
    site.reader(1)
        .refused()
        .await
        .expect("unavailable", &["ARKVORY_DATA_DIR"]);
    assert!(!site.data().exists());
    // Folders without an identity are no volume either.
    std::fs::create_dir_all(site.data().join("blobs")).unwrap();
    site.reader(1)
        .refused()
        .await
        .expect("unavailable", &["ARKVORY_DATA_DIR"]);
    assert_eq!(std::fs::read_dir(site.data()).unwrap().count(), 1);
}

/// docs/spec/leases.md 5.3.4 and 5.6.8.
#[tokio::test]
async fn a_reader_needs_the_policy_and_not_the_writer() {
    let site = Site::new().await;
    drop(site.standalone().start().await);
    site.released().await;
    site.reader(1).refused().await.expect("conflict", &[]);
    assert_eq!(policies(&site).await, 0, "a reader stores none");
    let mut writer = site.writer().start().await;
    writer.kill();
    site.released().await;
    let reader = site.reader(1).start().await;
    assert_eq!(slot_of(&reader).await, 1);
}

/// docs/spec/cases.md 9.2.4.
#[tokio::test]
async fn other_numbers_than_the_stored_ones_are_a_conflict() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let doubled = (6 * 65536).to_string();
    for launch in [
        site.reader(1).set(TOTAL, &doubled),
        site.auto_reader().set(TOTAL, &doubled),
        site.reader(1).set(SLOTS, "2").set(TOTAL, &(3 * 65536).to_string()),
        site.reader(1)
            .set("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", "0"),
    ] {
        launch.refused().await.expect("conflict", &[SLOTS, TOTAL]);
    }
    // Nothing of a refused start stays: the slot is free at once.
    let began = Instant::now();
    let reader = site.reader(1).start().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((slot_of(&writer).await, slot_of(&reader).await), (0, 1));
}

/// The writer is bound by the stored row too (docs/spec/leases.md 5.3.4).
#[tokio::test]
async fn the_writer_keeps_to_the_stored_policy() {
    let site = Site::new().await;
    drop(site.writer().start().await);
    site.released().await;
    site.writer()
        .set(TOTAL, &(6 * 65536).to_string())
        .refused()
        .await
        .expect("conflict", &[TOTAL]);
    let stored: i64 = sqlx::query_scalar("SELECT bytes_per_second FROM arkvory_download_policy")
        .fetch_one(&mut site.db().await)
        .await
        .unwrap();
    assert_eq!(stored, 3 * 65536);
}

/// docs/spec/cases.md 9.2.3.
#[tokio::test]
async fn a_slot_that_is_held_is_busy() {
    let site = Site::new().await;
    let _writer = site.writer().start().await;
    let first = site.reader(1).start().await;
    let began = Instant::now();
    let refusal = site.reader(1).refused().await;
    refusal.expect("busy", &[]);
    // It is seen to be renewed, so the whole reservation is not waited for (docs/spec/leases.md 5.3.8).
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    assert_eq!(first.get("/health/status").answer().await.status, 200);
    assert_eq!(lease(&site, 1).await.0, 1);
}

/// docs/spec/cases.md 9.2.1 and docs/spec/leases.md 5.3.10.
#[tokio::test]
async fn a_restarted_reader_takes_its_slot_back_after_the_reservation() {
    let site = Site::new().await;
    let writer = site.writer().start().await;
    let mut reader = site.reader(1).start().await;
    reader.kill();
    let (generation, left) = lease(&site, 1).await;
    assert_eq!(generation, 1);
    assert!((5_000..=10_000).contains(&left), "{left} ms left");
    let began = Instant::now();
    let reader = site.reader(1).start().await;
    let waited = i64::try_from(began.elapsed().as_millis()).unwrap();
    assert!(
        waited >= left - 50,
        "taken after {waited} ms, although {left} ms were left"
    );
    assert!(waited < left + 3_000, "{waited} ms waited, {left} ms were left");
    assert_eq!((slot_of(&reader).await, lease(&site, 1).await.0), (1, 2));
    assert_eq!(
        writer.get("/health/status").answer().await.status,
        200,
        "the writer does not care"
    );
}

/// docs/spec/leases.md 5.4.9: an ordered stop does not bring the end of the reservation forward either.
#[tokio::test]
async fn a_stopped_reader_leaves_its_reservation() {
    let site = Site::new().await;
    let _writer = site.writer().start().await;
    let mut reader = site.reader(1).start().await;
    assert_eq!(reader.stop().await, Some(0));
    let (generation, left) = lease(&site, 1).await;
    assert_eq!(generation, 1);
    assert!((5_000..=10_000).contains(&left), "{left} ms left");
}

/// docs/spec/cases.md 9.2.8.
#[tokio::test]
async fn auto_readers_get_different_slots() {
    let site = Site::new().await;
    let _writer = site.writer().start().await;
    let (one, two) = tokio::join!(site.auto_reader().start(), site.auto_reader().start());
    let mut slots = [slot_of(&one).await, slot_of(&two).await];
    slots.sort_unstable();
    assert_eq!(slots, [1, 2]);
    // All are taken and renewed: 15 s, then busy.
    let began = Instant::now();
    let third = site.auto_reader().refused().await;
    let waited = began.elapsed();
    third.expect("busy", &[SLOTS, "1", "2"]);
    assert!((14..20).contains(&waited.as_secs()), "{waited:?}");
}

/// docs/spec/leases.md 5.3.9.
#[tokio::test]
async fn an_auto_reader_waits_for_the_first_slot_to_become_free() {
    let site = Site::new().await;
    let _writer = site.writer().start().await;
    let mut gone = site.auto_reader().start().await;
    let kept = site.auto_reader().start().await;
    assert_eq!((slot_of(&gone).await, slot_of(&kept).await), (1, 2), "the lowest first");
    gone.kill();
    let (_, left) = lease(&site, 1).await;
    let began = Instant::now();
    let next = site.auto_reader().start().await;
    assert!(i64::try_from(began.elapsed().as_millis()).unwrap() >= left - 50);
    assert_eq!((slot_of(&next).await, slot_of(&kept).await), (1, 2));
    assert_eq!(lease(&site, 1).await.0, 2);
}

/// docs/spec/cases.md 9.2.6 and 9.2.7.
#[tokio::test]
async fn the_profiles_do_not_mix() {
    let site = Site::new().await;
    let mut writer = site.writer().start().await;
    let mut reader = site.reader(1).start().await;
    site.standalone().refused().await.expect("busy", &[SLOTS]);
    writer.kill();
    site.released().await;
    // Only the reader is left.
    site.standalone().refused().await.expect("busy", &[SLOTS]);
    reader.kill();
    // Nobody is left as soon as the server has noticed, but the policy stays.
    let refusal = loop {
        let refusal = site.standalone().refused().await;
        if refusal.line["detail"] != "busy" {
            break refusal;
        }
    };
    refusal.expect("conflict", &[SLOTS]);
    assert_eq!(policies(&site).await, 1);

    // The other way round.
    let site = Site::new().await;
    let _standalone = site.standalone().start().await;
    site.writer().refused().await.expect("busy", &[SLOTS]);
    site.reader(1).refused().await.expect("busy", &[SLOTS]);
    assert_eq!(policies(&site).await, 0);
}

/// docs/spec/leases.md 5.6.3: only `migrate` changes the schema.
#[tokio::test]
async fn the_schema_must_be_the_programs() {
    let site = Site::new().await;
    let mut db = site.db().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (99991231000000, 'newer', true, '', 0)";
    sqlx::query(newer).execute(&mut db).await.unwrap();
    site.standalone().refused().await.expect("unavailable", &["newer"]);
    for statement in ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"] {
        sqlx::query(statement).execute(&mut db).await.unwrap();
    }
    site.standalone().refused().await.expect("unavailable", &["migrate"]);
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    let count: i64 = sqlx::query_scalar(tables).fetch_one(&mut db).await.unwrap();
    assert_eq!(count, 0, "a process changes no schema");

    for round in 0..2 {
        let migrate = std::process::Command::new(env!("CARGO_BIN_EXE_arkvory"))
            .arg("migrate")
            .env_clear()
            .env("ARKVORY_DATABASE_URL", &site.database.url)
            .output()
            .unwrap();
        assert!(migrate.status.success(), "round {round}: {migrate:?}");
    }
    site.standalone().start().await;
}

/// Logins that `migrate` makes: the reader's can hold a lease and read, and nothing else (docs/spec/roles.md 1.2.1).
#[tokio::test]
async fn processes_work_with_the_logins_that_migrate_makes() {
    let site = Site::new().await;
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let mut urls = Vec::new();
    for role in ["writer", "reader"] {
        let mut url = reqwest::Url::parse(&site.database.url).unwrap();
        url.set_username(&format!("arkvory_{role}_{mark}")).unwrap();
        url.set_password(Some("p%40ss'word")).unwrap();
        let file = site.folder().join(role);
        std::fs::write(&file, url.as_str()).unwrap();
        urls.push((String::from(url), file));
    }
    let migrate = std::process::Command::new(env!("CARGO_BIN_EXE_arkvory"))
        .args([
            "migrate",
            "--writer-url-file",
            urls[0].1.to_str().unwrap(),
            "--reader-url-file",
            urls[1].1.to_str().unwrap(),
        ])
        .env_clear()
        .env("ARKVORY_DATABASE_URL", &site.database.url)
        .output()
        .unwrap();
    assert!(migrate.status.success(), "{migrate:?}");

    let writer = site
        .writer()
        .fast()
        .set("ARKVORY_DATABASE_URL", &urls[0].0)
        .start()
        .await;
    let reader = site
        .reader(1)
        .fast()
        .set("ARKVORY_DATABASE_URL", &urls[1].0)
        .start()
        .await;
    let path = "/api/v1/repositories/releases/raw/there";
    let put = writer
        .ask("PUT", path)
        .key(key::WRITER)
        .body(b"there".to_vec())
        .answer()
        .await;
    assert_eq!(put.status, 201, "{put:?}");
    let got = reader.get(path).key(key::READER).answer().await;
    assert!(got.body == "there");
    drop((writer, reader));
    let mut db = site.db().await;
    for role in ["writer", "reader"] {
        let name = format!("arkvory_{role}_{mark}");
        for statement in [format!("DROP OWNED BY {name}"), format!("DROP ROLE {name}")] {
            sqlx::query(sqlx::AssertSqlSafe(statement))
                .execute(&mut db)
                .await
                .unwrap();
        }
    }
}

/// A start that is interrupted while it waits ends at once, and leaves nothing.
#[tokio::test]
async fn a_waiting_start_can_be_interrupted() {
    let site = Site::new().await;
    let _writer = site.writer().start().await;
    let mut first = site.reader(1).start().await;
    first.kill();
    let mut waiting = site.reader(1).allow("startup.failed").spawn(9);
    // It waits for the reservation, up to 10 s.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(waiting.runs());
    waiting.signal(Signal::TERM);
    let began = Instant::now();
    waiting.ended(Duration::from_secs(3)).await;
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(lease(&site, 1).await.0, 1);
}
