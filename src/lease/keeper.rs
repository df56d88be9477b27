//! The driver of [`super::state`]: acquires a slot at start and renews it until it is closed or lost.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::facts::{Facts, Record};
use super::state::{Effect, Event, Failure, Machine, Timings};
use super::{Cause, Ended};
use crate::catalog;
use crate::catalog::anchors::LeaseSession;
use crate::catalog::connect::{CONNECT_TIMEOUT, Database, within};
use crate::catalog::policy::Policy;
use crate::catalog::slots::{Answer, Grant, Instance, Wanted};
use crate::clock::{Clock, Moment};
use crate::model::trust::Window;

/// How soon a keeper notices that its window has closed although its timers stood still (the host slept).
pub(super) const NOTICE: Duration = Duration::from_millis(500);

/// What a lease is asked with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the lease is kept.
    pub database: Database,
    /// The policy, which must be the stored one.
    pub policy: Policy,
    /// Which slot.
    pub wanted: Wanted,
    /// Who asks: one per process start.
    pub instance: Instance,
}

/// A slot that this process has.
///
/// It has its own connection from start to close. It lives as long as [`Lease::run`]: when that has returned or was
/// dropped, the window is closed for ever. The row in the database keeps its expiry, so that a lost acknowledgement can
/// never let two owners share one slot; a restart of the same slot waits for it.
#[derive(Debug)]
pub struct Lease {
    settings: Settings,
    clock: Clocked,
    machine: Machine,
    session: Option<LeaseSession>,
    grant: Grant,
    record: Record,
}

impl Lease {
    /// Acquires the slot; waits up to 15 s for what a former owner left behind (docs/spec/leases.md 5.3).
    ///
    /// Fails with `busy` when a live process has the slot, `conflict` when no policy or another one is stored,
    /// `unavailable` when the database is away. Dropping the future gives up at once.
    pub async fn acquire(settings: Settings, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        if let Wanted::Fixed(slot) = settings.wanted {
            settings.policy.check(slot)?;
        }
        let clock = Clocked(clock);
        let mut machine = Machine::new(settings.wanted, Timings::default());
        let mut session = None;
        let mut error = None;
        let mut event = Event::Tick;
        // The last attempt's beginning: the answer counts from there.
        let mut began = clock.now();
        loop {
            let now = clock.now();
            match machine.handle(std::mem::replace(&mut event, Event::Tick), now) {
                Effect::Acquire { deadline } => {
                    began = now;
                    match within(deadline, attempt(&mut session, &settings)).await {
                        Ok(Answer::Granted(grant)) => event = Event::Granted { began, grant },
                        Ok(Answer::Reserved(reservation)) => {
                            tracing::info!(code = "lease.reserved", slot = reservation.slot.number());
                            event = Event::Reserved(reservation);
                        }
                        Err(failed) => {
                            error = Some(failed);
                            event = Event::Failed;
                        }
                    }
                }
                Effect::SleepUntil(until) => tokio::time::sleep(until.saturating_sub(now.monotonic)).await,
                Effect::Activated(grant) => {
                    let Some(window) = machine.window().map(Arc::clone) else {
                        continue;
                    };
                    tracing::info!(
                        code = "lease.acquired",
                        slot = grant.slot.number(),
                        instance = %grant.instance,
                        generation = grant.generation,
                    );
                    return Ok(Self {
                        settings,
                        clock,
                        machine,
                        session,
                        grant,
                        record: Record::new(window, began, now),
                    });
                }
                Effect::Fail(failure) => return Err(explain(failure, error, &settings.policy)),
                // Only an active machine says these.
                Effect::Renew { .. } | Effect::Lost(_) => return Err(Error::TooLate),
            }
        }
    }

    /// The slot, the instance and the generation.
    pub const fn grant(&self) -> Grant {
        self.grant
    }

    /// The policy, which is the stored one.
    pub const fn policy(&self) -> Policy {
        self.settings.policy
    }

    /// The window in which the slot may be relied on, for a [`Trust`](crate::model::trust::Trust).
    pub fn window(&self) -> Arc<Window> {
        Arc::clone(self.record.window())
    }

    /// For the metrics.
    pub fn facts(&self) -> Facts {
        self.record.facts()
    }

    /// Renews the lease until `cancel` or until it is lost. To be spawned by the caller.
    pub async fn run(mut self, cancel: CancellationToken) -> Ended {
        tokio::select! {
            cause = self.keep() => {
                tracing::error!(code = "lease.lost", reason = cause.as_str(), slot = self.grant.slot.number());
                Ended::Lost(cause)
            }
            () = cancel.cancelled() => Ended::Closed,
        }
    }

    async fn keep(&mut self) -> Cause {
        let mut event = Event::Tick;
        loop {
            let now = self.clock.now();
            event = match self.machine.handle(event, now) {
                Effect::Renew { deadline } => self.renew(now, deadline).await,
                Effect::SleepUntil(until) => {
                    tokio::time::sleep(until.saturating_sub(now.monotonic).min(NOTICE)).await;
                    Event::Tick
                }
                Effect::Lost(cause) => return cause,
                // Only a waiting machine says these.
                Effect::Acquire { .. } | Effect::Activated(_) | Effect::Fail(_) => return Cause::WindowClosed,
            };
        }
    }

    /// One attempt: on a fresh connection if the last one was destroyed.
    async fn renew(&mut self, began: Moment, deadline: Duration) -> Event {
        let renewal = async {
            let session = open(&mut self.session, &self.settings.database).await?;
            session.renew(&self.grant).await
        };
        let error = match within(deadline, renewal).await {
            Ok(()) => {
                if self.record.success(began, self.clock.now()) {
                    tracing::info!(code = "lease.renewal_recovered");
                }
                return Event::Renewed { began };
            }
            Err(error) => error,
        };
        self.session = None;
        if self.record.failure() {
            tracing::warn!(
                code = "lease.renewal_failed",
                errorName = error.error_name(),
                sqlstate = error.sqlstate().as_deref(),
            );
        }
        match error {
            catalog::error::Error::RowsAffected { .. } => Event::Gone,
            _ => Event::Failed,
        }
    }
}

async fn open<'a>(
    session: &'a mut Option<LeaseSession>,
    database: &Database,
) -> Result<&'a mut LeaseSession, catalog::error::Error> {
    match session {
        Some(open) => Ok(open),
        None => Ok(session.insert(LeaseSession::open(database, CONNECT_TIMEOUT).await?)),
    }
}

async fn attempt(session: &mut Option<LeaseSession>, settings: &Settings) -> Result<Answer, catalog::error::Error> {
    open(session, &settings.database)
        .await?
        .acquire(settings.wanted, &settings.policy, settings.instance)
        .await
}

fn explain(failure: Failure, error: Option<catalog::error::Error>, policy: &Policy) -> Error {
    match failure {
        Failure::Attempt => error.map_or(Error::TooLate, Error::Catalog),
        Failure::Held(slot) => Error::Held(slot),
        Failure::Reserved(slot) => Error::Reserved(slot),
        Failure::AllTaken => Error::AllTaken(policy.slots() - 1),
        Failure::TooLate => Error::TooLate,
    }
}

/// A clock that can be part of a value with `Debug`.
#[derive(Clone)]
pub(super) struct Clocked(pub(super) Arc<dyn Clock>);

impl Clocked {
    pub(super) fn now(&self) -> Moment {
        self.0.now()
    }
}

impl std::fmt::Debug for Clocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}
