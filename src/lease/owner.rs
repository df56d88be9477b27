//! The driver of [`super::ownership`]: claims the storage at start and watches the claim until it is closed or lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::Error;
use super::facts::{Facts, Record};
use super::keeper::{Clocked, NOTICE};
use super::ownership::{Effect, Event, Machine, Timings};
use super::{Cause, Ended};
use crate::catalog;
use crate::catalog::anchors::{Backend, Claim, OwnershipSession};
use crate::catalog::connect::{CONNECT_TIMEOUT, Database, within};
use crate::clock::{Clock, Moment};
use crate::model::trust::Window;

/// Longest time for the steps of a claim at start.
const CLAIMING: Duration = Duration::from_secs(8);
/// Longest time for giving back what a refused claim has taken.
const RELEASING: Duration = Duration::from_secs(1);
/// A watch ends this long before the next probe, so that its answer is there by then.
const BEFORE_PROBE: Duration = Duration::from_millis(20);

/// The claim of this process on the storage. It lives as long as [`Ownership::run`].
#[derive(Debug)]
pub struct Ownership {
    // These two stand before the session: the trust ends before the locks are free, in whatever way this is dropped.
    record: Record,
    held: Held,
    session: Option<OwnershipSession>,
    /// Backends of sessions of this process that may linger in the database.
    backends: Vec<Backend>,
    machine: Machine,
    database: Database,
    claim: Claim,
    storage: Uuid,
    clock: Clocked,
}

/// Whether changes may start and commit. Cheap to ask and to clone.
#[derive(Clone, Debug)]
pub struct Changes {
    held: watch::Receiver<bool>,
    window: Arc<Window>,
    clock: Clocked,
}

impl Changes {
    /// Whether a change may start, or commit, now. False while the locks are being retaken, although reads go on.
    pub fn allowed(&self) -> bool {
        *self.held.borrow() && self.window.is_open(self.clock.now())
    }
}

#[derive(Debug)]
struct Held(watch::Sender<bool>);

impl Held {
    fn set(&self, held: bool) {
        self.0
            .send_if_modified(|before| std::mem::replace(before, held) != held);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl Ownership {
    /// Claims the storage whose directory has the id `storage` (docs/spec/leases.md 5.6 step 5).
    ///
    /// Fails with the code of the refused step; nothing stays locked then, so that a start may be retried at once.
    /// Dropping the future gives up at once.
    pub async fn claim(database: Database, claim: Claim, storage: Uuid, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let clock = Clocked(clock);
        let mut session = OwnershipSession::open(&database, claim, CONNECT_TIMEOUT).await?;
        let taken = within(CLAIMING, async {
            let backend = session.backend().await?;
            session.take(storage, &[]).await?;
            Ok(backend)
        })
        .await;
        let backend = match taken {
            Ok(backend) => backend,
            Err(error) => {
                if matches!(error, catalog::error::Error::Refused(_)) {
                    // A failure here changes nothing: the server frees the locks when it notices the closed connection.
                    let _ = within(RELEASING, session.release()).await;
                }
                return Err(error.into());
            }
        };
        let timings = Timings::default();
        let began = clock.now();
        within(timings.probing, session.probe()).await?;
        let now = clock.now();
        let machine = Machine::held(timings, began, now).map_err(|_| Error::TooLate)?;
        let record = Record::new(Arc::clone(machine.window()), began, now);
        tracing::info!(code = "ownership.claimed");
        Ok(Self {
            database,
            claim,
            storage,
            clock,
            machine,
            session: Some(session),
            backends: vec![backend],
            held: Held(watch::Sender::new(true)),
            record,
        })
    }

    /// The window in which reads may go on, for a [`Trust`](crate::model::trust::Trust).
    pub fn window(&self) -> Arc<Window> {
        Arc::clone(self.record.window())
    }

    /// Whether changes may start and commit, for the writer.
    pub fn changes(&self) -> Changes {
        Changes {
            held: self.held.0.subscribe(),
            window: self.window(),
            clock: self.clock.clone(),
        }
    }

    /// For the metrics.
    pub fn facts(&self) -> Facts {
        self.record.facts()
    }

    /// Gives the storage back without having run; when it returns, all locks are free.
    pub async fn release(mut self) {
        self.record.window().close();
        if let Some(session) = self.session.take() {
            // A failure here changes nothing: the server frees the locks when it notices the closed connection.
            let _ = within(RELEASING, session.release()).await;
        }
    }

    /// Watches the claim until `cancel` or until it is lost. To be spawned by the caller.
    ///
    /// After its return the locks are free as soon as the server notices the closed connection, within about 100 ms.
    pub async fn run(mut self, cancel: CancellationToken) -> Ended {
        tokio::select! {
            cause = self.keep() => {
                tracing::error!(code = "ownership.lost", reason = cause.as_str());
                Ended::Lost(cause)
            }
            () = cancel.cancelled() => Ended::Closed,
        }
    }

    async fn keep(&mut self) -> Cause {
        let mut event = Event::Tick;
        loop {
            let now = self.clock.now();
            let effect = self.machine.handle(event, now);
            self.held.set(self.machine.is_held());
            event = match effect {
                Effect::Probe { deadline } => self.probe(now, deadline).await,
                Effect::Retake { deadline } => self.retake(now, deadline).await,
                Effect::SleepUntil(until) => self.wait(until).await,
                Effect::Lost(cause) => return cause,
            };
        }
    }

    async fn probe(&mut self, began: Moment, deadline: Duration) -> Event {
        let Some(session) = &mut self.session else {
            return Event::Broken;
        };
        match within(deadline, session.probe()).await {
            Ok(()) => {
                self.record.success(began, self.clock.now());
                Event::Probed { began }
            }
            Err(error) => self.broken(&error),
        }
    }

    /// Waits until then, with an eye on the connection: when the server ends the session, it is known at once.
    async fn wait(&mut self, until: Duration) -> Event {
        let left = until.saturating_sub(self.clock.now().monotonic);
        let Some(session) = &mut self.session else {
            tokio::time::sleep(left.min(NOTICE)).await;
            return Event::Tick;
        };
        let window = self.record.window();
        let watched = {
            let watch = session.watch(left.saturating_sub(BEFORE_PROBE));
            tokio::select! {
                outcome = watch => outcome,
                () = until_or_closed(until, window, &self.clock) => return Event::Tick,
            }
        };
        match watched {
            Ok(()) => {
                until_or_closed(until, window, &self.clock).await;
                Event::Tick
            }
            Err(error) => self.broken(&error),
        }
    }

    fn broken(&mut self, error: &catalog::error::Error) -> Event {
        self.session = None;
        self.failed(error);
        Event::Broken
    }

    fn failed(&mut self, error: &catalog::error::Error) {
        if self.record.failure() {
            tracing::warn!(
                code = "ownership.session_broken",
                errorName = error.error_name(),
                sqlstate = error.sqlstate().as_deref(),
            );
        }
    }

    async fn retake(&mut self, began: Moment, deadline: Duration) -> Event {
        let retaking = async {
            let mut session = OwnershipSession::open(&self.database, self.claim, CONNECT_TIMEOUT).await?;
            // Noted before it takes anything: if this attempt is given up, it must not stand in the way of the next.
            let earlier = self.backends.clone();
            self.backends.push(session.backend().await?);
            session.take(self.storage, &earlier).await?;
            session.probe().await?;
            Ok(session)
        };
        match within(deadline, retaking).await {
            Ok(session) => {
                self.session = Some(session);
                self.backends.drain(..self.backends.len() - 1);
                self.record.success(began, self.clock.now());
                tracing::info!(code = "ownership.retaken");
                Event::Retaken { began }
            }
            Err(error) => {
                self.failed(&error);
                match error {
                    catalog::error::Error::Refused(_) => Event::Refused,
                    _ => Event::Failed,
                }
            }
        }
    }
}

/// Waits until the monotonic clock shows this, or until the window is found closed.
async fn until_or_closed(until: Duration, window: &Window, clock: &Clocked) {
    loop {
        let now = clock.now();
        let left = until.saturating_sub(now.monotonic);
        if left.is_zero() || !window.is_open(now) {
            return;
        }
        tokio::time::sleep(left.min(NOTICE)).await;
    }
}
