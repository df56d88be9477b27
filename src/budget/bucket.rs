//! A token bucket over monotonic time: exact, so that a month of small refills adds up to the byte.

use std::time::Duration;

/// What one byte weighs: refilling `rate` bytes a second is then a whole number a nanosecond.
const BYTE: u128 = 1_000_000_000;

/// Tokens for bytes, refilled at a steady rate up to a burst.
///
/// What is taken in any window of time is at most `burst + rate * window` (docs/spec/bandwidth.md 6.2). With rate 0 it
/// doesn't limit: it always holds enough.
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: u64,
    capacity: u128,
    level: u128,
    as_of: Duration,
}

impl Bucket {
    /// A full bucket: `rate` in bytes a second (0 = doesn't limit), `burst` in bytes, `now` on the monotonic clock.
    pub fn full(rate: u64, burst: u64, now: Duration) -> Self {
        let capacity = u128::from(burst) * BYTE;
        Self {
            rate,
            capacity,
            level: capacity,
            as_of: now,
        }
    }

    /// Whether `bytes` can be taken at `now`. A `now` before the last one counts as the last one.
    pub fn holds(&mut self, bytes: u64, now: Duration) -> bool {
        if let Some(passed) = now.checked_sub(self.as_of) {
            let refill = passed.as_nanos().saturating_mul(u128::from(self.rate));
            self.level = self.level.saturating_add(refill).min(self.capacity);
            self.as_of = now;
        }
        self.rate == 0 || self.level >= u128::from(bytes) * BYTE
    }

    /// Takes `bytes`, which it was just found to hold.
    pub fn take(&mut self, bytes: u64) {
        self.level = self.level.saturating_sub(u128::from(bytes) * BYTE);
    }

    /// The first nanosecond at which it holds `bytes` (at most its burst) if nobody takes any before.
    pub fn ready_at(&self, bytes: u64) -> Duration {
        let missing = (u128::from(bytes) * BYTE).saturating_sub(self.level);
        match self.rate {
            0 => self.as_of,
            rate => {
                let wait = u64::try_from(missing.div_ceil(u128::from(rate))).unwrap_or(u64::MAX);
                self.as_of.saturating_add(Duration::from_nanos(wait))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Duration = Duration::from_secs(1_000);

    #[test]
    fn starts_full_and_refills_to_the_nanosecond() {
        let mut bucket = Bucket::full(65_536, 6_553, START);
        assert!(!bucket.holds(6_554, START));
        assert!(bucket.holds(6_553, START));
        bucket.take(6_553);
        assert!(!bucket.holds(1, START));
        let ready = bucket.ready_at(6_553);
        assert_eq!(ready, START + Duration::from_nanos(99_990_845));
        assert!(!bucket.holds(6_553, START + Duration::from_nanos(99_990_844)));
        assert!(bucket.holds(6_553, ready));
        assert!(
            !bucket.holds(6_554, START + Duration::from_hours(1)),
            "never above the burst"
        );
    }

    #[test]
    fn a_clock_that_goes_back_refills_nothing() {
        let mut bucket = Bucket::full(1_000, 100, START);
        bucket.take(100);
        assert!(!bucket.holds(1, Duration::ZERO));
        assert!(!bucket.holds(1, START));
    }

    #[test]
    fn rate_0_holds_anything() {
        let mut bucket = Bucket::full(0, 0, START);
        assert!(bucket.holds(u64::MAX, START));
        bucket.take(u64::MAX);
        assert!(bucket.holds(u64::MAX, START));
        assert_eq!(bucket.ready_at(u64::MAX), START);
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let mut bucket = Bucket::full(u64::MAX, u64::MAX, Duration::ZERO);
        assert!(bucket.holds(u64::MAX, Duration::ZERO));
        bucket.take(u64::MAX);
        assert!(bucket.holds(u64::MAX, Duration::MAX));
    }

    proptest! {
        #[test]
        fn many_small_refills_are_one_large_one(rate in 1_u64..1 << 40, steps in prop::collection::vec(0_u64..1_000, 1..200)) {
            let mut often = Bucket::full(rate, 1 << 40, START);
            often.take(1 << 40);
            let mut once = often.clone();
            let mut now = START;
            for step in steps {
                now += Duration::from_nanos(step);
                often.holds(0, now);
            }
            once.holds(0, now);
            prop_assert_eq!(often.level, once.level);
        }

        #[test]
        fn ready_at_is_the_first_nanosecond(rate in 1_u64..1 << 40, used in 0_u64..1 << 20, bytes in 0_u64..1 << 20) {
            let mut bucket = Bucket::full(rate, 1 << 20, START);
            bucket.take(used);
            let ready = bucket.ready_at(bytes);
            prop_assert!(bucket.clone().holds(bytes, ready));
            if ready > START {
                prop_assert!(!bucket.holds(bytes, ready.saturating_sub(Duration::from_nanos(1))));
            }
        }
    }
}
