//! Who may send how much next: a pure machine, driven by the meter and by the simulator.
//!
//! A stream that wants to send first tries to [`grab`](Governor::grab) a quantum. Where that isn't possible it
//! [waits](Governor::wait), one request per stream, and the driver asks for the [`next`](Governor::next) grant until
//! there is none, and again after the [`delay`](Governor::delay).
//!
//! A quantum needs tokens in the global bucket and in its principal's at the same moment. Principals take turns, however
//! many connections they have; inside a principal it is first come, first served. Of the principals with somebody
//! waiting
//!
//! * those whose own bucket lacks tokens *rest* until it has them, and others pass;
//! * the rest stand in the *rotation*. Its head keeps its place until the global bucket has what it needs, and nobody
//!   takes from the refill meanwhile: tiny requests can't starve a large one.
//!
//! Everything costs O(log n) in the number of waiters and principals.

mod crowd;
mod principals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use principals::Account;

use self::crowd::{Crowd, drip};
use self::principals::Principals;
use super::Error;
use super::bucket::Bucket;
use super::share::Rates;
use crate::model::principal::PrincipalId;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Whether a stream has been granted anything yet.
///
/// Waiting places are for `New` streams. A response that is running is never refused one (docs/spec/bandwidth.md 6.2):
/// it would have to break off in the middle. So more can wait than there are places, but no more than are running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing yet: it can be answered `busy`.
    New,
    /// Its bytes are on the way.
    Running,
}

/// Names one wait, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    account: Account,
    number: u64,
}

/// A wait that came to its end.
#[derive(Debug)]
pub struct Grant<T> {
    /// What the waiter left to be told by.
    pub reply: T,
    /// How many bytes it may send: at least one, at most what it wants.
    pub bytes: u64,
}

/// Hands out quanta of bytes under a global rate and one per principal (docs/spec/bandwidth.md 6.2).
///
/// All times are readings of one monotonic clock. `T` is how the driver reaches a waiter.
#[derive(Debug)]
pub struct Governor<T> {
    rates: Rates,
    places: usize,
    global: Bucket,
    principals: Principals<T>,
    /// Principals that wait for the global bucket, by turn.
    rotation: BTreeMap<u64, Account>,
    /// Principals that wait for their own bucket, by the time when it has enough.
    resting: BTreeSet<(Duration, Account)>,
    crowd: Crowd,
    numbers: u64,
    granted: u64,
    closed: bool,
}

/// A stream's request.
#[derive(Debug)]
struct Waiter<T> {
    want: u64,
    reply: T,
}

/// Where a principal stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Nobody waits.
    Idle,
    /// In the rotation.
    Turn(u64),
    /// Resting until then.
    Rest(Duration),
}

impl<T> Governor<T> {
    /// A governor with full buckets. `places` is how many may wait for their first grant.
    pub fn new(rates: Rates, places: usize, now: Duration) -> Self {
        Self {
            rates,
            places,
            global: Bucket::full(rates.per_second, rates.burst(), now),
            principals: Principals::default(),
            rotation: BTreeMap::new(),
            resting: BTreeSet::new(),
            crowd: Crowd::default(),
            numbers: 0,
            granted: 0,
            closed: false,
        }
    }

    /// Lets a principal transfer. Again it changes nothing: one principal has one bucket.
    ///
    /// Fails with [`Error::TooManyPrincipals`].
    pub fn register(&mut self, principal: &PrincipalId, now: Duration) -> Result<Account, Error> {
        let rates = self.rates;
        self.principals.register(principal, || {
            Bucket::full(rates.per_principal, rates.principal_burst(), now)
        })
    }

    /// Where a principal's transfers are charged to. Fails with [`Error::UnknownPrincipal`].
    pub fn account(&self, principal: &PrincipalId) -> Result<Account, Error> {
        self.principals.find(principal)
    }

    /// Takes up to `want` bytes (at least 1) at once, if nobody is waiting before and both buckets have tokens: a
    /// quantum, or what one that waits would get.
    ///
    /// Fails with [`Error::Unavailable`].
    pub fn grab(&mut self, account: Account, want: u64, now: Duration) -> Result<Option<u64>, Error> {
        self.when_open()?;
        self.wake_rested(now);
        let purse = &mut self.principals[account];
        if !self.rotation.is_empty() || !purse.queue.is_empty() {
            return Ok(None);
        }
        for most in [self.rates.quantum(), self.rates.waiting_quantum()] {
            let bytes = want.min(most);
            if purse.bucket.holds(bytes, now) && self.global.holds(bytes, now) {
                purse.bucket.take(bytes);
                self.global.take(bytes);
                self.granted += bytes;
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Waits for up to `want` bytes (at least 1).
    ///
    /// Fails with [`Error::Unavailable`] and, for a new stream while all places are taken, [`Error::Busy`].
    pub fn wait(
        &mut self,
        account: Account,
        want: u64,
        standing: Standing,
        reply: T,
        now: Duration,
    ) -> Result<Ticket, Error> {
        self.when_open()?;
        if standing == Standing::New && self.waiting() >= self.places {
            return Err(Error::Busy);
        }
        self.wake_rested(now);
        let number = self.number();
        let want = want.clamp(1, self.rates.waiting_quantum());
        let purse = &mut self.principals[account];
        self.crowd.joins(purse.queue.len(), want);
        purse.backlog += want;
        purse.queue.insert(number, Waiter { want, reply });
        if !matches!(purse.place, Place::Turn(_)) {
            self.place(account, now);
        }
        Ok(Ticket { account, number })
    }

    /// Ends a wait, and says whether it was still going on. What was granted stays spent.
    pub fn cancel(&mut self, ticket: Ticket, now: Duration) -> bool {
        let waited = self.remove(ticket).is_some();
        let purse = &self.principals[ticket.account];
        if waited && (purse.queue.is_empty() || matches!(purse.place, Place::Rest(_))) {
            self.place(ticket.account, now);
        }
        waited
    }

    /// The next grant that is due. Ask until there is none.
    pub fn next(&mut self, now: Duration) -> Option<Grant<T>> {
        self.wake_rested(now);
        loop {
            let account = *self.rotation.first_key_value()?.1;
            let bytes = self.portion(account);
            let purse = &mut self.principals[account];
            if !purse.bucket.holds(bytes, now) {
                self.place(account, now);
                continue;
            }
            if !self.global.holds(bytes, now) {
                return None;
            }
            purse.bucket.take(bytes);
            self.global.take(bytes);
            self.granted += bytes;
            let number = *purse.queue.first_key_value()?.0;
            let waiter = self.remove(Ticket { account, number })?;
            self.place(account, now);
            return Some(Grant {
                reply: waiter.reply,
                bytes,
            });
        }
    }

    /// How long after `now` the next grant is due if nothing else happens: at least 1 ms, in whole milliseconds,
    /// rounded up. `None` while nobody waits.
    pub fn delay(&self, now: Duration) -> Option<Duration> {
        let due = match self.rotation.first_key_value() {
            // Those that rest would only come behind the head.
            Some((_, &head)) => self.global.ready_at(self.portion(head)),
            None => self.resting.first()?.0,
        };
        let millis = due.saturating_sub(now).as_nanos().div_ceil(MILLISECOND.as_nanos());
        Some(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).max(MILLISECOND))
    }

    /// Refuses everything from now on, and gives back everybody who waits.
    pub fn close(&mut self) -> Vec<T> {
        self.closed = true;
        self.rotation.clear();
        self.resting.clear();
        self.crowd = Crowd::default();
        self.principals.drain()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.crowd.waiting()
    }

    /// Bytes granted since the start. Grants count, not deliveries.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    fn when_open(&self) -> Result<(), Error> {
        if self.closed { Err(Error::Unavailable) } else { Ok(()) }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// How much the first waiter of `account` gets in one grant.
    fn portion(&self, account: Account) -> u64 {
        let purse = &self.principals[account];
        let want = purse.queue.first_key_value().map_or(0, |(_, waiter)| waiter.want);
        want.min(self.crowd.drip(self.rates.per_second)).min(drip(
            self.rates.per_principal,
            purse.backlog,
            purse.queue.len(),
        ))
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiter<T>> {
        let purse = &mut self.principals[ticket.account];
        let waiter = purse.queue.remove(&ticket.number)?;
        purse.backlog -= waiter.want;
        self.crowd.leaves(purse.queue.len(), waiter.want);
        Some(waiter)
    }

    /// Puts a principal where it belongs: nowhere, to rest, or at the tail of the rotation.
    fn place(&mut self, account: Account, now: Duration) {
        match self.principals[account].place {
            Place::Idle => {}
            Place::Turn(turn) => drop(self.rotation.remove(&turn)),
            Place::Rest(until) => drop(self.resting.remove(&(until, account))),
        }
        let bytes = self.portion(account);
        let purse = &mut self.principals[account];
        purse.place = if purse.queue.is_empty() {
            Place::Idle
        } else if purse.bucket.holds(bytes, now) {
            self.numbers += 1;
            self.rotation.insert(self.numbers, account);
            Place::Turn(self.numbers)
        } else {
            let until = purse.bucket.ready_at(bytes);
            self.resting.insert((until, account));
            Place::Rest(until)
        };
    }

    fn wake_rested(&mut self, now: Duration) {
        while let Some(&(until, account)) = self.resting.first()
            && until <= now
        {
            self.place(account, now);
        }
    }
}
