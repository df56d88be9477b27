//! The download policy that all processes of an installation share, and its row (docs/spec/leases.md 5.1).

use sqlx::PgConnection;

use super::error::{Error, Refusal};
use crate::model::member::Slot;
use crate::model::number::{HIGHEST_RATE, LOWEST_RATE};

/// How many slots there are and how fast all of them together may send. Can't hold numbers out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    slots: u8,
    total: u64,
    per_principal: u64,
}

/// Numbers that are no policy (docs/spec/environment.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// Fewer than 2 slots or more than 16.
    #[error("Invalid ARKVORY_GATEWAY_SLOTS")]
    Slots,
    /// The slot is not one of them.
    #[error("Invalid ARKVORY_GATEWAY_SLOT")]
    Slot,
    /// The total leaves a slot with less than 65536 B/s, or is above 1 TiB/s.
    #[error("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND must leave 65536 B/s to each slot")]
    Total,
    /// The same of the rate per principal, which may also be 0.
    #[error("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL must be 0 or leave 65536 B/s to each slot")]
    PerPrincipal,
}

impl Policy {
    /// A policy of `slots` (2 to 16) processes, the writer included, that send `total` bytes per second together
    /// (`slots` x 65536 to 1 TiB/s), and `per_principal` to one principal (the same range, or 0 for no limit).
    pub fn new(slots: u8, total: u64, per_principal: u64) -> Result<Self, BadPolicy> {
        if !(2..=Slot::MOST).contains(&slots) {
            return Err(BadPolicy::Slots);
        }
        let rates = u64::from(slots) * LOWEST_RATE..=HIGHEST_RATE;
        if !rates.contains(&total) {
            return Err(BadPolicy::Total);
        }
        if per_principal != 0 && !rates.contains(&per_principal) {
            return Err(BadPolicy::PerPrincipal);
        }
        Ok(Self {
            slots,
            total,
            per_principal,
        })
    }

    /// Number of processes, the writer included.
    pub const fn slots(&self) -> u8 {
        self.slots
    }

    /// Bytes per second of all processes together.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Bytes per second to one principal from all processes together; 0 is no limit.
    pub const fn per_principal(&self) -> u64 {
        self.per_principal
    }

    /// Refuses a slot that this policy doesn't have.
    pub const fn check(&self, slot: Slot) -> Result<(), BadPolicy> {
        if slot.number() < self.slots {
            Ok(())
        } else {
            Err(BadPolicy::Slot)
        }
    }
}

fn stored_number(number: u64, column: &'static str) -> Result<i64, Error> {
    i64::try_from(number).map_err(|_| Error::Inconsistent {
        table: "arkvory_download_policy",
        column,
    })
}

/// Stores the policy unless one is stored; a stored one is left alone. Only for slot 0.
pub async fn store_if_none(connection: &mut PgConnection, policy: &Policy) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO arkvory_download_policy (slots, bytes_per_second, principal_bytes_per_second)
         VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        i32::from(policy.slots),
        stored_number(policy.total, "bytes_per_second")?,
        stored_number(policy.per_principal, "principal_bytes_per_second")?,
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Whether any policy is stored.
pub async fn is_stored(connection: &mut PgConnection) -> Result<bool, Error> {
    Ok(
        sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM arkvory_download_policy) AS "stored!""#)
            .fetch_one(connection)
            .await?,
    )
}

/// Requires that the stored policy has the numbers of `policy`; otherwise [`Refusal::PolicyAbsent`] or
/// [`Refusal::PolicyDiffers`].
pub async fn require(connection: &mut PgConnection, policy: &Policy) -> Result<(), Error> {
    let stored =
        sqlx::query!("SELECT slots, bytes_per_second, principal_bytes_per_second FROM arkvory_download_policy")
            .fetch_optional(connection)
            .await?
            .ok_or(Refusal::PolicyAbsent)?;
    let equal = stored.slots == i32::from(policy.slots)
        && u64::try_from(stored.bytes_per_second) == Ok(policy.total)
        && u64::try_from(stored.principal_bytes_per_second) == Ok(policy.per_principal);
    if equal {
        Ok(())
    } else {
        Err(Refusal::PolicyDiffers.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_policies() {
        assert_eq!(Policy::new(1, 65_536, 0), Err(BadPolicy::Slots));
        assert_eq!(Policy::new(17, HIGHEST_RATE, 0), Err(BadPolicy::Slots));
        assert_eq!(Policy::new(3, 3 * 65_536 - 1, 0), Err(BadPolicy::Total));
        assert_eq!(Policy::new(3, HIGHEST_RATE + 1, 0), Err(BadPolicy::Total));
        assert_eq!(Policy::new(3, 3 * 65_536, 1), Err(BadPolicy::PerPrincipal));
        assert_eq!(
            Policy::new(3, 3 * 65_536, HIGHEST_RATE + 1),
            Err(BadPolicy::PerPrincipal)
        );
        let policy = Policy::new(3, 3 * 65_536, 3 * 65_536).unwrap();
        assert_eq!(policy.check(Slot::new(3).unwrap()), Err(BadPolicy::Slot));
        assert_eq!(policy.check(Slot::new(2).unwrap()), Ok(()));
    }
}
