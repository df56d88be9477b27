//! Is this process fit to serve? (docs/spec/health.md 8.1)

use std::time::Duration;

use tokio::sync::Mutex;

use crate::catalog::{Catalog, schema, within};
use crate::clock::{Clock, Moment};
use crate::model::trust::Trust;
use crate::storage::Volume;
use std::sync::Arc;

/// How long a verdict is good for. Many probes share one check.
const VERDICT_AGE: Duration = Duration::from_secs(1);
/// How long a check may take; a probe must not hang as long as what it probes.
const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// Judges the process.
pub struct Health {
    probe: Catalog,
    volume: Volume,
    trust: Trust,
    clock: Arc<dyn Clock>,
    last: Mutex<Option<(Moment, bool)>>,
}

impl Health {
    /// `probe` is a pool of one connection of its own, so that a busy pool doesn't make the process look sick.
    pub fn new(probe: Catalog, volume: Volume, trust: Trust, clock: Arc<dyn Clock>) -> Self {
        Self {
            probe,
            volume,
            trust,
            clock,
            last: Mutex::new(None),
        }
    }

    /// Whether the process can serve: its trust holds, the database answers with the program's schema, the volume is
    /// there. One check at a time; its verdict holds for a second.
    pub(super) async fn is_ready(&self) -> bool {
        if !self.trust.holds() {
            return false;
        }
        let mut last = self.last.lock().await;
        let now = self.clock.now();
        match *last {
            Some((when, verdict)) if now.since(when) < VERDICT_AGE => verdict,
            _ => {
                let verdict = self.check().await;
                *last = Some((self.clock.now(), verdict));
                verdict
            }
        }
    }

    async fn check(&self) -> bool {
        let check = async {
            let mut db = self.probe.connection().await?;
            within(schema::check(&mut db)).await
        };
        let database = tokio::time::timeout(CHECK_DEADLINE, check)
            .await
            .is_ok_and(|answer| answer.is_ok());
        database && self.volume.healthy() && self.trust.holds()
    }
}
