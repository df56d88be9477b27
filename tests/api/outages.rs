//! The database goes away while processes serve (docs/spec/leases.md 5.4, 5.5, 5.7 and docs/spec/cases.md 9.4).

use std::time::Duration;

use tokio::time::Instant;

use crate::eventually::eventually;
use crate::process::{Launch, Process};
use crate::site::{Site, key, noise};
use crate::support::chaos::Chaos;
use crate::wire::Wire;

const R: &str = "/api/v1/repositories/releases";
/// docs/spec/leases.md 5.7.1.
const BREAKS_OFF: Duration = Duration::from_millis(9500);

/// What an outage may write into the log.
fn expecting_outage(launch: Launch<'_>) -> Launch<'_> {
    [
        "library",
        "database.awaited",
        "http.unavailable",
        "lease.renewal_failed",
        "ownership.session_broken",
        "lease.lost",
        "ownership.lost",
    ]
    .into_iter()
    .fold(launch, Launch::allow)
}

async fn publish(writer: &Process, path: &str, bytes: &[u8]) -> u16 {
    writer
        .ask("PUT", &format!("{R}/raw/{path}"))
        .key(key::WRITER)
        .body(bytes.to_vec())
        .answer()
        .await
        .status
}

/// docs/spec/cases.md 9.4.1 and docs/spec/leases.md 5.7.
#[tokio::test]
async fn a_frozen_database_ends_the_process_within_its_trust() {
    let site = Site::new().await;
    let link = Chaos::to(site.database.address()).await;
    let url = site.database.by_way_of(link.address());
    let launch = expecting_outage(site.writer())
        .allow("api.ownership_lost")
        .set("ARKVORY_DATABASE_URL", &url);
    let mut writer = launch.start().await;
    let bytes = noise(1, 2 << 20);
    assert_eq!(publish(&writer, "large", &bytes).await, 201);
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("GET", &format!("{R}/raw/large"), key::READER, ""))
        .await;
    assert_eq!(wire.answer_head().await.unwrap().0, 200);

    link.freeze();
    let began = Instant::now();
    let received = wire.rest().await.len();
    assert!(began.elapsed() < BREAKS_OFF, "{:?}", began.elapsed());
    // It went on while it could be trusted, at 65536 bytes a second.
    assert!((200_000..700_000).contains(&received), "{received}");
    assert_eq!(writer.ended(Duration::from_secs(3)).await, Some(1));
    assert_eq!(writer.logged("api.ownership_lost"), 1);
}

#[tokio::test]
async fn a_link_that_is_frozen_for_4_seconds_stops_nothing() {
    stops_nothing("frozen").await;
}

#[tokio::test]
async fn connections_that_are_refused_for_4_seconds_stop_nothing() {
    stops_nothing("refused").await;
}

/// Old connections never come back, new ones work.
#[tokio::test]
async fn connections_that_are_stuck_for_ever_stop_nothing() {
    stops_nothing("stuck").await;
}

/// docs/spec/cases.md 9.4.3.
async fn stops_nothing(form: &str) {
    let site = Site::new().await;
    let link = Chaos::to(site.database.address()).await;
    let url = site.database.by_way_of(link.address());
    let mut writer = expecting_outage(site.writer())
        .set("ARKVORY_DATABASE_URL", &url)
        .start()
        .await;
    let bytes = noise(2, 400 << 10);
    assert_eq!(publish(&writer, "large", &bytes).await, 201);
    let mut wire = Wire::open(&writer).await;
    wire.send(Wire::head("GET", &format!("{R}/raw/large"), key::READER, ""))
        .await;
    assert_eq!(wire.answer_head().await.unwrap().0, 200);
    match form {
        "refused" => link.refuse(),
        _ => link.freeze(),
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(writer.get("/health/live").answer().await.status, 200);
    match form {
        "stuck" => link.restore_for_new_connections(),
        _ => link.restore(),
    }
    assert!(wire.take(bytes.len()).await == bytes, "{form}: the download goes on");
    assert!(writer.runs(), "{form}");
    eventually(Duration::from_secs(12), "ready again", async || {
        writer.get("/health/status").answer().await.status == 200
    })
    .await;
    eventually(Duration::from_secs(12), "changes work again", async || {
        publish(&writer, "next", form.as_bytes()).await == 201
    })
    .await;
    let got = writer.get(&format!("{R}/raw/next")).key(key::READER).answer().await;
    assert!(got.body == form);
}

/// docs/spec/leases.md 5.5.4: reads go on, changes wait for the locks, which are back within a second.
#[tokio::test]
async fn ended_sessions_are_replaced() {
    let site = Site::new().await;
    let mut writer = expecting_outage(site.writer().fast()).start().await;
    assert_eq!(publish(&writer, "there", b"there").await, 201);
    for round in 0..3_u8 {
        site.database
            .terminate_sessions(&mut site.database.connect().await)
            .await;
        let began = Instant::now();
        let got = writer.get(&format!("{R}/raw/there")).key(key::READER).answer().await;
        assert!(got.status == 200 && got.body == "there", "{got:?}");
        eventually(Duration::from_secs(2), "changes work again", async || {
            matches!(publish(&writer, "changed", &[round]).await, 200 | 201)
        })
        .await;
        assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    }
    assert!(writer.runs());
    assert!(site.is_clean().await);
}
