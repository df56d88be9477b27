//! What reading the variables brings to light: mistakes, warnings, and the report of what is in force.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::Mistakes;
use super::report::{Entry, Origin, Report};
use super::variables::Variable;
use crate::model::number::{HIGHEST_RATE, LOWEST_RATE, canonical};

/// Collects while the sections are read.
#[derive(Default)]
pub(super) struct Findings {
    mistakes: Vec<String>,
    warnings: Vec<String>,
    report: Report,
}

impl Findings {
    pub(super) fn mistake(&mut self, text: String) {
        self.mistakes.push(text);
    }

    pub(super) fn missing(&mut self, name: &str) {
        self.mistake(format!("Missing {name}"));
    }

    pub(super) fn invalid(&mut self, name: &str, allowed: &str) {
        self.mistake(format!("Invalid {name}: {allowed}"));
    }

    pub(super) fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    /// Reports a variable that is not set as being at its default.
    pub(super) fn at_default(&mut self, variable: &Variable, shown: impl Display) {
        self.show(variable, shown, Origin::Default);
    }

    /// Reports what `variable` is set to.
    pub(super) fn show(&mut self, variable: &Variable, shown: impl Display, origin: Origin) {
        self.report.push(Entry {
            name: variable.name,
            shown: shown.to_string(),
            origin,
        });
    }

    /// The value of `variable` if it is set and good.
    pub(super) fn given<T>(
        &mut self,
        variable: &Variable,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = variable.text()?;
        let value = parse(text);
        if value.is_some() {
            self.show(variable, text, Origin::Environment);
        } else {
            self.invalid(variable.name, allowed);
        }
        value
    }

    /// The value of a variable that must be set.
    pub(super) fn required<T>(
        &mut self,
        variable: &Variable,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        if !variable.is_set() {
            self.missing(variable.name);
        }
        self.given(variable, allowed, parse)
    }

    /// A canonical decimal in `range`; `default` when it isn't set, and after a mistake.
    pub(super) fn number<T>(&mut self, variable: &Variable, default: T, range: RangeInclusive<T>) -> T
    where
        T: TryFrom<u64> + PartialOrd + Display,
    {
        if !variable.is_set() {
            self.at_default(variable, &default);
            return default;
        }
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        self.given(variable, &allowed, |text| {
            T::try_from(canonical::<u64>(text)?).ok().filter(|n| range.contains(n))
        })
        .unwrap_or(default)
    }

    /// A rate in bytes per second: 0 (off, the default) or 64 KiB/s to 1 TiB/s.
    pub(super) fn rate(&mut self, variable: &Variable) -> u64 {
        if !variable.is_set() {
            self.at_default(variable, 0);
            return 0;
        }
        self.given(variable, &allowed_rate(), rate).unwrap_or(0)
    }

    /// Exactly `true` or `false`; `default` when it isn't set, and after a mistake.
    pub(super) fn flag(&mut self, variable: &Variable, default: bool) -> bool {
        if !variable.is_set() {
            self.at_default(variable, default);
            return default;
        }
        self.given(variable, "true or false", |text| text.parse().ok())
            .unwrap_or(default)
    }

    /// The end of reading: warnings and report, or every mistake.
    pub(super) fn finish(self) -> Result<(Vec<String>, Report), Mistakes> {
        if self.mistakes.is_empty() {
            Ok((self.warnings, self.report))
        } else {
            Err(Mistakes::new(self.mistakes))
        }
    }
}

/// A canonical rate: 0, or from the lowest to the highest.
pub(super) fn rate(text: &str) -> Option<u64> {
    canonical(text).filter(|n: &u64| *n == 0 || (LOWEST_RATE..=HIGHEST_RATE).contains(n))
}

/// What [`rate`] takes, in words.
pub(super) fn allowed_rate() -> String {
    format!("0 or a whole number from {LOWEST_RATE} to {HIGHEST_RATE}")
}
