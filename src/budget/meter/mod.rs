//! What a response body holds to send bytes: it waits on the governor, and asks for trust around every grant.
//!
//! There is no task behind it. Those who wait drive the governor themselves: one of them holds the *baton*, sleeps until
//! the next grant is due (on one timer, at most 250 ms, because trust is asked again then), hands out what is due and
//! sleeps again. When its own grant comes, or its future is dropped, the baton goes to the one that has waited for it
//! longest. A future that holds the baton but isn't polled would keep everybody waiting, so each of them looks twice a
//! second whether the governor is driven, and else does it; nobody should let a future lie, though.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::Error;
use super::governor::{Account, Governor, Standing, Ticket};
use super::share::Rates;
use crate::clock::Clock;
use crate::model::principal::PrincipalId;
use crate::model::trust::Trust;

/// While anybody waits, trust is asked at least this often.
const TRUST_PROBE: Duration = Duration::from_millis(250);

/// How often each that waits looks whether the one with the baton does its work.
const OWN_PROBE: Duration = Duration::from_millis(500);

/// So late, the one with the baton isn't polled: no busy machine is.
const LATE: Duration = Duration::from_millis(100);

/// Bounds of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many streams may wait for their first bytes.
    pub waiting: usize,
}

impl Limits {
    /// Bounds for a process that lets `transfers` run at once: as many places, and at least 256
    /// (docs/spec/bandwidth.md 6.2).
    pub fn for_transfers(transfers: usize) -> Self {
        Self {
            waiting: transfers.max(256),
        }
    }
}

/// What a meter tells of itself; the field `bandwidth` of docs/spec/health.md 8.1. Rates and bursts are 0 if unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Rate of all transfers, in bytes a second.
    pub bytes_per_second: u64,
    /// Rate of each principal, in bytes a second.
    pub per_principal_bytes_per_second: u64,
    /// Burst of all transfers, in bytes.
    pub burst_bytes: u64,
    /// Burst of each principal, in bytes.
    pub per_principal_burst_bytes: u64,
    /// Quanta waited for now.
    pub waiting: usize,
    /// Bytes granted since the start.
    pub granted_bytes: u64,
    /// The most that is granted at once, in bytes.
    pub quantum: u64,
}

/// The budget of one direction of one process. Clones share it.
#[derive(Clone)]
pub struct Meter(Arc<Shared>);

struct Shared {
    rates: Rates,
    clock: Arc<dyn Clock>,
    trust: Trust,
    closed: AtomicBool,
    /// Bytes granted without asking the governor: all if rates are unlimited, none otherwise.
    unmetered: AtomicU64,
    state: Mutex<State>,
    baton: tokio::sync::Mutex<()>,
    rearm: Notify,
}

struct State {
    governor: Governor<oneshot::Sender<u64>>,
    /// When the one with the baton wakes up.
    armed: Duration,
}

impl Meter {
    /// A meter with full buckets that grants while `trust` holds.
    pub fn new(rates: Rates, limits: Limits, clock: Arc<dyn Clock>, trust: Trust) -> Self {
        let now = clock.now().monotonic;
        Self(Arc::new(Shared {
            rates,
            clock,
            trust,
            closed: AtomicBool::new(false),
            unmetered: AtomicU64::new(0),
            state: Mutex::new(State {
                governor: Governor::new(rates, limits.waiting, now),
                armed: now,
            }),
            baton: tokio::sync::Mutex::new(()),
            rearm: Notify::new(),
        }))
    }

    /// Lets a principal transfer; again it changes nothing.
    ///
    /// Fails with [`Error::TooManyPrincipals`].
    pub fn register(&self, principal: &PrincipalId) -> Result<(), Error> {
        let now = self.0.now();
        self.0.lock().governor.register(principal, now).map(drop)
    }

    /// A stream whose bytes are charged to `principal`. Nothing is granted or waited for yet.
    ///
    /// Fails with [`Error::UnknownPrincipal`] and [`Error::Unavailable`].
    pub fn stream(&self, principal: &PrincipalId) -> Result<StreamBudget, Error> {
        self.0.check()?;
        Ok(StreamBudget {
            account: self.0.lock().governor.account(principal)?,
            shared: Arc::clone(&self.0),
            standing: Standing::New,
        })
    }

    /// Grants nothing any more; whoever waits hears [`Error::Unavailable`] at once.
    pub fn close(&self) {
        self.0.close();
    }

    /// What it tells of itself.
    pub fn snapshot(&self) -> Snapshot {
        let rates = self.0.rates;
        let state = self.0.lock();
        Snapshot {
            bytes_per_second: rates.per_second,
            per_principal_bytes_per_second: rates.per_principal,
            burst_bytes: rates.burst(),
            per_principal_burst_bytes: rates.principal_burst(),
            waiting: state.governor.waiting(),
            granted_bytes: state.governor.granted() + self.0.unmetered.load(Ordering::Relaxed),
            quantum: rates.quantum(),
        }
    }
}

/// One stream's access to the budget. Dropping it, or a future of [`take`](Self::take), ends its wait.
pub struct StreamBudget {
    shared: Arc<Shared>,
    account: Account,
    standing: Standing,
}

impl StreamBudget {
    /// Waits until up to `want` bytes may be sent: at most a quantum, less while many wait. Granted bytes count as sent.
    ///
    /// Fails with [`Error::Unavailable`] when trust is lost, within a second also while it waits, and for a stream that
    /// hasn't sent anything yet with [`Error::Busy`].
    pub async fn take(&mut self, want: u64) -> Result<u64, Error> {
        self.check()?;
        let bytes = match want {
            0 => return Ok(0),
            want if self.shared.rates.unlimited() => self.shared.count(want),
            want => self.shared.take(self.account, want, self.standing).await?,
        };
        self.standing = Standing::Running;
        self.check()?;
        Ok(bytes)
    }

    /// Whether the process may still serve: to be asked at the end of a source, and for an empty one, before success
    /// is reported.
    ///
    /// Fails with [`Error::Unavailable`], and then for ever.
    pub fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.clock.now().monotonic
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Unavailable);
        }
        if !self.trust.holds() {
            self.close();
            return Err(Error::Unavailable);
        }
        Ok(())
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Whoever waits hears it by the loss of the sender.
        let waiting = self.lock().governor.close();
        drop(waiting);
    }

    fn count(&self, want: u64) -> u64 {
        let bytes = want.min(self.rates.quantum());
        self.unmetered.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    async fn take(&self, account: Account, want: u64, standing: Standing) -> Result<u64, Error> {
        let (ticket, mut granted) = {
            let mut state = self.lock();
            let now = self.now();
            state.serve(now);
            if let Some(bytes) = state.governor.grab(account, want, now)? {
                return Ok(bytes);
            }
            let (reply, granted) = oneshot::channel();
            let ticket = state.governor.wait(account, want, standing, reply, now)?;
            if state.due(now) < state.armed {
                self.rearm.notify_waiters();
            }
            (ticket, granted)
        };
        // Goes before the receiver does.
        let _waiting = Waiting { shared: self, ticket };
        tokio::select! {
            biased;
            granted = &mut granted => granted.map_err(|_| Error::Unavailable),
            never = self.drive() => match never {},
            never = self.watch() => match never {},
        }
    }

    /// Once it has the baton: hands out what is due, for ever.
    async fn drive(&self) -> Infallible {
        let _baton = self.baton.lock().await;
        self.turns().await
    }

    /// Does the same without the baton if the one that has it doesn't.
    async fn watch(&self) -> Infallible {
        loop {
            sleep(OWN_PROBE).await;
            let overdue = self.now().checked_sub(self.lock().armed);
            if overdue > Some(LATE) {
                return self.turns().await;
            }
        }
    }

    async fn turns(&self) -> Infallible {
        loop {
            let rearmed = self.rearm.notified();
            let pause = self.turn();
            tokio::select! {
                () = sleep(pause) => {}
                () = rearmed => {}
            }
        }
    }

    /// Asks for trust, hands out what is due, and says how long to sleep.
    fn turn(&self) -> Duration {
        // When that fails, nobody waits any more.
        let _ = self.check();
        let mut state = self.lock();
        let now = self.now();
        state.serve(now);
        state.armed = state.due(now).min(now + TRUST_PROBE);
        state.armed.saturating_sub(now)
    }
}

impl State {
    fn serve(&mut self, now: Duration) {
        while let Some(grant) = self.governor.next(now) {
            // The receiver is there: it cancels the wait before it goes.
            let _ = grant.reply.send(grant.bytes);
        }
    }

    fn due(&self, now: Duration) -> Duration {
        now + self.governor.delay(now).unwrap_or(TRUST_PROBE)
    }
}

/// Ends a wait when the future goes, however it goes.
struct Waiting<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = self.shared.now();
        if self.shared.lock().governor.cancel(self.ticket, now) {
            // What stands behind it may be due earlier than what it wanted.
            self.shared.rearm.notify_waiters();
        }
    }
}
