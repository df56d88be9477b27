//! Smaller grants while many wait, so that every stream drips: a proxy that hears nothing for long cuts it off.

use std::collections::BTreeMap;

/// Within this time, in milliseconds, everybody who waits is to be served once. The gap that a client sees adds late
/// timers and its own way; it is to stay under a second.
const ROUND: u128 = 500;

/// No grant is cut below this, in bytes: beyond, more time would go into grants than into bytes.
const LEAST: u64 = 1_024;

/// The most that one grant may be so that all who wait come round in time, for a bucket that refills `rate` bytes a
/// second, `burden` bytes being wanted before the last one's turn in `grants` grants.
pub(super) fn drip(rate: u64, burden: u64, grants: usize) -> u64 {
    let round = u128::from(rate) * ROUND / 1_000;
    if rate == 0 || u128::from(burden) <= round {
        return u64::MAX;
    }
    let each = round / u128::try_from(grants.max(1)).unwrap_or(u128::MAX);
    u64::try_from(each).unwrap_or(u64::MAX).max(LEAST)
}

/// Who waits, counted.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    waiting: usize,
    principals: usize,
    backlog: u64,
    /// How many principals have so many waiters.
    lengths: BTreeMap<usize, usize>,
}

impl Crowd {
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// One more waits for `want` bytes, beside `others` of the same principal.
    pub(super) fn joins(&mut self, others: usize, want: u64) {
        self.waiting += 1;
        self.backlog += want;
        self.shift(others, others + 1);
    }

    /// One that waited for `want` bytes has gone, `others` of the same principal remain.
    pub(super) fn leaves(&mut self, others: usize, want: u64) {
        self.waiting -= 1;
        self.backlog -= want;
        self.shift(others + 1, others);
    }

    fn shift(&mut self, from: usize, to: usize) {
        match self.lengths.get_mut(&from) {
            Some(1) => drop(self.lengths.remove(&from)),
            Some(count) => *count -= 1,
            None => self.principals += 1,
        }
        match to {
            0 => self.principals -= 1,
            to => *self.lengths.entry(to).or_default() += 1,
        }
    }

    /// The most that one grant may be under a global `rate`.
    ///
    /// The last stream of the principal with the longest queue sees as many rounds as that queue is long, and in each
    /// round one grant to every principal.
    pub(super) fn drip(&self, rate: u64) -> u64 {
        let Some((&longest, _)) = self.lengths.last_key_value() else {
            return u64::MAX;
        };
        let burden = self.backlog.saturating_mul(u64::try_from(longest).unwrap_or(u64::MAX));
        drip(rate, burden, self.principals.saturating_mul(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_soon_anyway_is_not_cut() {
        let mut crowd = Crowd::default();
        crowd.joins(0, 6_553);
        for _ in 0..100 {
            crowd.joins(0, 1);
        }
        assert_eq!(crowd.drip(65_536), u64::MAX);
    }

    #[test]
    fn a_crowd_is_cut_to_what_half_a_second_brings() {
        let mut crowd = Crowd::default();
        for others in 0..100 {
            crowd.joins(others, 65_536);
        }
        crowd.joins(0, 65_536);
        assert_eq!(crowd.drip(1 << 24), (1 << 23) / 200, "100 rounds of two principals");
        assert_eq!(crowd.drip(65_536), LEAST);
        assert_eq!(crowd.drip(0), u64::MAX);
        for others in (0..100).rev() {
            crowd.leaves(others, 65_536);
        }
        assert_eq!(crowd.drip(1 << 24), u64::MAX);
        crowd.leaves(0, 65_536);
        assert_eq!((crowd.waiting, crowd.principals, crowd.backlog), (0, 0, 0));
        assert!(crowd.lengths.is_empty());
    }
}
