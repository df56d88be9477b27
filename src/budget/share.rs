//! Which rates hold for this process: its slot's share of the total, or less (docs/spec/bandwidth.md 6.3).

use std::num::NonZeroU32;

const KIB: u64 = 1_024;
const MIB: u64 = 1_024 * KIB;

/// The part of `total` bytes a second that belongs to one of `slots` slots: rounded down, the remainder is unused.
///
/// 0 (no limit) stays 0. A total too small to divide gives 1, for 0 would lift the limit.
pub fn share(total: u64, slots: NonZeroU32) -> u64 {
    match total {
        0 => 0,
        total => (total / u64::from(slots.get())).max(1),
    }
}

/// The smaller of two limits, where 0 doesn't limit.
pub fn smaller(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        (one, other) => one.min(other),
    }
}

/// Rates in one direction, in bytes of payload a second. 0 = unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of all transfers together.
    pub per_second: u64,
    /// Of each principal's transfers together.
    pub per_principal: u64,
}

impl Rates {
    /// What one of `slots` slots may use of these.
    #[must_use]
    pub fn share(self, slots: NonZeroU32) -> Self {
        Self {
            per_second: share(self.per_second, slots),
            per_principal: share(self.per_principal, slots),
        }
    }

    /// These, lowered by the process's own limits.
    #[must_use]
    pub fn lowered_by(self, local: Self) -> Self {
        Self {
            per_second: smaller(self.per_second, local.per_second),
            per_principal: smaller(self.per_principal, local.per_principal),
        }
    }

    /// Whether nothing limits.
    pub fn unlimited(self) -> bool {
        self == Self::default()
    }

    /// What may flow at once after a pause, in bytes; 0 if the total is unlimited.
    pub fn burst(self) -> u64 {
        burst(self.per_second)
    }

    /// What one principal may use at once after a pause, in bytes; 0 if principals are unlimited.
    pub fn principal_burst(self) -> u64 {
        burst(self.per_principal)
    }

    /// The most that is granted at once, in bytes: a hundredth of a second's bytes between 64 KiB and 1 MiB, and at
    /// most the burst, for each limit in force the smallest (docs/spec/bandwidth.md 6.2). 1 MiB if nothing limits.
    pub fn quantum(self) -> u64 {
        self.enabled()
            .map(|rate| (rate / 100).clamp(64 * KIB, MIB).min(burst(rate)))
            .min()
            .unwrap_or(MIB)
    }

    /// The most that is granted to one that had to wait, in bytes: at most a [`quantum`](Self::quantum).
    ///
    /// A bucket that is full refills nothing, and timers are up to 2 ms late. Where a quantum is as large as the burst,
    /// each wait for one would lose what those 2 ms bring; a quarter of the burst leaves room for them. 64 KiB and less
    /// are never split: their refill takes long enough.
    pub fn waiting_quantum(self) -> u64 {
        self.enabled()
            .map(|rate| (burst(rate) / 4).max(64 * KIB))
            .min()
            .unwrap_or(MIB)
            .min(self.quantum())
    }

    fn enabled(self) -> impl Iterator<Item = u64> {
        [self.per_second, self.per_principal]
            .into_iter()
            .filter(|&rate| rate > 0)
    }
}

/// The burst of a bucket with this rate. An enabled bucket holds at least one byte, or nothing would ever flow.
fn burst(rate: u64) -> u64 {
    match rate {
        0 => 0,
        rate => (rate / 10).clamp(1, MIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    fn rates(per_second: u64, per_principal: u64) -> Rates {
        Rates {
            per_second,
            per_principal,
        }
    }

    #[test]
    fn shares() {
        assert_eq!(share(1_000_000, slots(3)), 333_333);
        assert_eq!(share(0, slots(3)), 0, "no limit");
        assert_eq!(share(2, slots(3)), 1, "a limit stays a limit");
        assert_eq!(rates(1 << 30, 1 << 24).share(slots(16)), rates(1 << 26, 1 << 20));
    }

    #[test]
    fn the_smaller_limit_holds() {
        let share = rates(1_000, 0);
        assert_eq!(share.lowered_by(rates(0, 0)), share);
        assert_eq!(share.lowered_by(rates(2_000, 300)), rates(1_000, 300));
        assert_eq!(share.lowered_by(rates(500, 300)), rates(500, 300));
        assert!(rates(0, 0).lowered_by(rates(0, 0)).unlimited());
    }

    #[test]
    fn bursts_and_quanta() {
        for (per_second, per_principal, burst, principal_burst, quantum, waiting) in [
            (0, 0, 0, 0, MIB, MIB),
            (65_536, 0, 6_553, 0, 6_553, 6_553),
            (0, 65_536, 0, 6_553, 6_553, 6_553),
            (MIB, 0, 104_857, 0, 64 * KIB, 64 * KIB),
            (MIB, 65_536, 104_857, 6_553, 6_553, 6_553),
            (16 * MIB, 0, MIB, 0, 167_772, 167_772),
            (64 * MIB, 0, MIB, 0, 671_088, 256 * KIB),
            (1_024 * MIB, 0, MIB, 0, MIB, 256 * KIB),
            (1_024 * MIB, 8 * MIB, MIB, 838_860, 83_886, 83_886),
            (5, 0, 1, 0, 1, 1),
        ] {
            let rates = rates(per_second, per_principal);
            assert_eq!(rates.burst(), burst, "{rates:?}");
            assert_eq!(rates.principal_burst(), principal_burst, "{rates:?}");
            assert_eq!(rates.quantum(), quantum, "{rates:?}");
            assert_eq!(rates.waiting_quantum(), waiting, "{rates:?}");
        }
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_total(total in 4_096_u64.., n in 1_u32..=4_096) {
            let share = share(total, slots(n));
            prop_assert!(share > 0);
            let used = u128::from(share) * u128::from(n);
            prop_assert!(used <= u128::from(total) && u128::from(total) < used + u128::from(n));
        }

        #[test]
        fn a_quantum_fits_every_bucket(per_second: u64, per_principal: u64) {
            let rates = rates(per_second, per_principal);
            prop_assert!(rates.quantum() > 0 && rates.waiting_quantum() > 0);
            prop_assert!(rates.waiting_quantum() <= rates.quantum());
            prop_assert!(per_second == 0 || rates.quantum() <= rates.burst());
            prop_assert!(per_principal == 0 || rates.quantum() <= rates.principal_burst());
        }
    }
}
