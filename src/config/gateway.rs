//! The shared profile: slots under one rate (docs/spec/environment.md 4.2).

use super::findings::{Findings, allowed_rate, rate};
use super::report::UNSET;
use super::variables::{Variable, Variables};
use crate::model::member::{Role, Slot};
use crate::model::number::{LOWEST_RATE, canonical};

/// Which slot a process takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotChoice {
    /// This one and no other.
    Fixed(Slot),
    /// The lowest free one from 1; readers only (docs/spec/environment.md 4.2).
    Auto,
}

/// What all processes of an installation must agree on, and the slot of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// `ARKVORY_GATEWAY_SLOTS`: processes including the writer, 2 to 16.
    pub slots: u8,
    /// `ARKVORY_GATEWAY_SLOT`: 0 for the writer; 1 to slots-1, or `auto`, for a reader.
    pub slot: SlotChoice,
    /// `ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND`: all downloads of all processes, in bytes/s; 65,536 per slot to 1 TiB/s.
    pub total: u64,
    /// `ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL`: those of one principal, same unit and range; default 0
    /// = no limit.
    pub per_principal: u64,
}

impl Gateway {
    /// `None` when none of the four is set, and after a mistake.
    pub(super) fn read(found: &Variables, role: Option<Role>, findings: &mut Findings) -> Option<Self> {
        let total = &found.shared_download_bytes_per_second;
        let per_principal = &found.shared_download_bytes_per_second_per_principal;
        let four = [&found.gateway_slots, &found.gateway_slot, total, per_principal];
        if !four.iter().any(|variable| variable.is_set()) {
            for variable in four {
                findings.at_default(variable, UNSET);
            }
            if role == Some(Role::Reader) {
                let names = four.map(|variable| variable.name);
                findings.mistake(format!(
                    "A reader (ARKVORY_ROLE) can't run without the shared profile: set {}, {} and {}",
                    names[0], names[1], names[2]
                ));
            }
            return None;
        }
        let slots = read_slots(&found.gateway_slots, findings);
        let slot = read_slot(&found.gateway_slot, slots, role, findings);
        let total_rate = findings.required(total, &allowed_rate(), rate);
        if total_rate == Some(0) || below_floor(total_rate, slots) {
            below(total, findings);
        }
        let principal_rate = if per_principal.is_set() {
            findings.given(per_principal, &allowed_rate(), rate)
        } else {
            findings.at_default(per_principal, 0);
            Some(0)
        };
        if principal_rate != Some(0) && below_floor(principal_rate, slots) {
            below(per_principal, findings);
        }
        Some(Self {
            slots: slots?,
            slot: slot?,
            total: total_rate?,
            per_principal: principal_rate?,
        })
    }
}

fn read_slots(variable: &Variable, findings: &mut Findings) -> Option<u8> {
    const ALLOWED: &str = "a whole number from 2 to 16";
    if !variable.is_set() {
        findings.invalid(variable.name, ALLOWED);
    }
    findings.given(variable, ALLOWED, |text| {
        let slots = canonical::<u8>(text)?;
        (2..=Slot::MOST).contains(&slots).then_some(slots)
    })
}

fn read_slot(
    variable: &Variable,
    slots: Option<u8>,
    role: Option<Role>,
    findings: &mut Findings,
) -> Option<SlotChoice> {
    let allowed = "a whole number from 0 to below ARKVORY_GATEWAY_SLOTS, or auto for a reader";
    let choice = findings.required(variable, allowed, |text| {
        if text == "auto" {
            return Some(SlotChoice::Auto);
        }
        let number = canonical::<u8>(text)?;
        let fits = slots.is_none_or(|slots| number < slots);
        Slot::new(number).filter(|_| fits).map(SlotChoice::Fixed)
    })?;
    let is_writers = choice == SlotChoice::Fixed(Slot::WRITER);
    if role.is_some_and(|role| (role == Role::Api) != is_writers) {
        findings.mistake(format!(
            "ARKVORY_ROLE and {} don't go together: api takes slot 0, a reader another one or auto",
            variable.name
        ));
    }
    Some(choice)
}

fn below_floor(rate: Option<u64>, slots: Option<u8>) -> bool {
    rate.zip(slots)
        .is_some_and(|(rate, slots)| rate < u64::from(slots) * LOWEST_RATE)
}

fn below(variable: &Variable, findings: &mut Findings) {
    findings.mistake(format!(
        "{} is too low: each of the ARKVORY_GATEWAY_SLOTS needs at least {LOWEST_RATE} bytes per second",
        variable.name
    ));
}
