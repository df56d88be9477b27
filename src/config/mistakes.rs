//! All that is wrong with a configuration.

use std::fmt;

use crate::model::failure::{Classify, Kind};

/// The longest reason in a log line, in bytes: text fields are cut at 256 characters (docs/spec/environment.md 4.7).
const LONGEST_REASON: usize = 256;

/// Every mistake that was found, in one error. Texts name variables and never show their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mistakes(Vec<String>);

impl Mistakes {
    /// The mistakes with these texts.
    pub fn new(texts: Vec<String>) -> Self {
        Self(texts)
    }

    /// One text per mistake.
    pub fn texts(&self) -> &[String] {
        &self.0
    }

    /// All of them on one line that fits into the `reason` of `startup.failed`; says how many had no room.
    pub fn reason(&self) -> String {
        let mut line = String::new();
        for (i, text) in self.0.iter().enumerate() {
            let left = self.0.len() - i;
            let room = if left > 1 { " (and 1000 more)".len() } else { 0 };
            if i > 0 && line.len() + "; ".len() + text.len() + room > LONGEST_REASON {
                return format!("{line} (and {left} more)");
            }
            if i > 0 {
                line.push_str("; ");
            }
            line.push_str(text);
        }
        line
    }
}

impl fmt::Display for Mistakes {
    /// One line per mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Mistakes {}

impl Classify for Mistakes {
    fn kind(&self) -> Kind {
        Kind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_its_field() {
        let three = Mistakes::new(vec!["Missing A".into(), "Missing B".into(), "Invalid C: 1".into()]);
        assert_eq!(three.reason(), "Missing A; Missing B; Invalid C: 1");
        assert_eq!(three.to_string(), "Missing A\nMissing B\nInvalid C: 1");
        let many = Mistakes::new((0..200).map(|n| format!("Missing ARKVORY_{n}")).collect());
        assert!(many.reason().len() <= LONGEST_REASON, "{}", many.reason());
        assert!(many.reason().ends_with(" more)"), "{}", many.reason());
    }
}
