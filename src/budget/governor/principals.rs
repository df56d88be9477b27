//! The table of principals: one purse each, kept for the life of the process.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Index, IndexMut};

use super::{Place, Waiter};
use crate::budget::Error;
use crate::budget::bucket::Bucket;
use crate::model::principal::PrincipalId;

/// Most principals of one class: file keys, users, services. 3,000 in all (docs/spec/bandwidth.md 6.2).
const PER_CLASS: usize = 1_000;

/// Where a principal's transfers are charged to, in the governor that gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account(usize);

/// What a principal has and who of its streams waits.
#[derive(Debug)]
pub(super) struct Purse<T> {
    pub(super) bucket: Bucket,
    /// In order of arrival.
    pub(super) queue: BTreeMap<u64, Waiter<T>>,
    /// Bytes wanted in the queue.
    pub(super) backlog: u64,
    pub(super) place: Place,
}

/// All purses, by account.
#[derive(Debug)]
pub(super) struct Principals<T> {
    names: HashMap<PrincipalId, Account>,
    purses: Vec<Purse<T>>,
    classes: [usize; 3],
}

impl<T> Default for Principals<T> {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            purses: Vec::new(),
            classes: [0; 3],
        }
    }
}

impl<T> Principals<T> {
    pub(super) fn find(&self, principal: &PrincipalId) -> Result<Account, Error> {
        self.names.get(principal).copied().ok_or(Error::UnknownPrincipal)
    }

    pub(super) fn register(
        &mut self,
        principal: &PrincipalId,
        bucket: impl FnOnce() -> Bucket,
    ) -> Result<Account, Error> {
        if let Some(&account) = self.names.get(principal) {
            return Ok(account);
        }
        let members = &mut self.classes[class(principal)];
        if *members == PER_CLASS {
            return Err(Error::TooManyPrincipals);
        }
        *members += 1;
        let account = Account(self.purses.len());
        self.purses.push(Purse {
            bucket: bucket(),
            queue: BTreeMap::new(),
            backlog: 0,
            place: Place::Idle,
        });
        self.names.insert(principal.clone(), account);
        Ok(account)
    }

    /// Sends everybody who waits away.
    pub(super) fn drain(&mut self) -> Vec<T> {
        let mut replies = Vec::new();
        for purse in &mut self.purses {
            purse.place = Place::Idle;
            purse.backlog = 0;
            replies.extend(
                std::mem::take(&mut purse.queue)
                    .into_values()
                    .map(|waiter| waiter.reply),
            );
        }
        replies
    }
}

impl<T> Index<Account> for Principals<T> {
    type Output = Purse<T>;

    fn index(&self, account: Account) -> &Purse<T> {
        &self.purses[account.0]
    }
}

impl<T> IndexMut<Account> for Principals<T> {
    fn index_mut(&mut self, account: Account) -> &mut Purse<T> {
        &mut self.purses[account.0]
    }
}

/// File keys, users, services. Ids of file keys have no colon (docs/spec/environment.md 4.6).
fn class(principal: &PrincipalId) -> usize {
    match principal.as_str().split_once(':') {
        Some(("user", _)) => 1,
        Some(("service", _)) => 2,
        _ => 0,
    }
}
