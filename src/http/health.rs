//! Is this process fit to serve? (docs/spec/health.md 8.1)

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::catalog::{self, Catalog, schema, within};
use crate::clock::{Clock, Moment};
use crate::model::failure::{Classify as _, Kind};
use crate::model::trust::Trust;
use crate::storage::Volume;

/// How long a verdict is good for. Many probes share one check.
const VERDICT_AGE: Duration = Duration::from_secs(1);
/// How long a check may take; a probe must not hang as long as what it probes.
const CHECK_DEADLINE: Duration = Duration::from_secs(1);
/// How long the database may be away before that makes the process unfit: no more than stops nothing else either
/// (docs/spec/leases.md 5.4). Otherwise one hiccup would take every process out of every balancer at once.
const GRACE: Duration = Duration::from_secs(4);

/// Judges the process.
pub struct Health {
    probe: Catalog,
    volume: Volume,
    trust: Trust,
    clock: Arc<dyn Clock>,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    verdict: Option<(Moment, bool)>,
    /// When the database answered last.
    answered: Option<Moment>,
}

impl Health {
    /// `probe` is a pool of one connection of its own, so that a busy pool doesn't make the process look sick.
    pub fn new(probe: Catalog, volume: Volume, trust: Trust, clock: Arc<dyn Clock>) -> Self {
        Self {
            probe,
            volume,
            trust,
            clock,
            last: Mutex::default(),
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
        match last.verdict {
            Some((when, verdict)) if now.since(when) < VERDICT_AGE => verdict,
            _ => {
                let database = self.database(&mut last).await;
                let verdict = database && self.volume.healthy() && self.trust.holds();
                last.verdict = Some((self.clock.now(), verdict));
                verdict
            }
        }
    }

    async fn database(&self, last: &mut Last) -> bool {
        let check = async {
            let mut db = self.probe.connection().await?;
            within(schema::check(&mut db)).await
        };
        let answer = tokio::time::timeout(CHECK_DEADLINE, check)
            .await
            .unwrap_or(Err(catalog::Error::Deadline));
        let now = self.clock.now();
        match answer {
            Ok(()) => {
                last.answered = Some(now);
                true
            }
            // Away, and not long ago it was there.
            Err(error) if is_absence(&error) => last.answered.is_some_and(|when| now.since(when) < GRACE),
            Err(_) => false,
        }
    }
}

fn is_absence(error: &catalog::Error) -> bool {
    let wrong_schema = matches!(error, catalog::Error::SchemaOlder | catalog::Error::SchemaNewer);
    error.kind() == Kind::Unavailable && !wrong_schema
}
