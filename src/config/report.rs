//! What is in force, and where each value came from.

use std::fmt;

/// What a secret is shown as.
pub(super) const REDACTED: &str = "[redacted]";
/// What an optional setting that isn't set is shown as.
pub(super) const UNSET: &str = "unset";

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A variable of the environment.
    Environment,
    /// A file that a variable names.
    File,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The variable.
    pub name: &'static str,
    /// Its value; `[redacted]` for a secret, `unset` for what is optional and not set.
    pub shown: String,
    /// Where the value came from.
    pub origin: Origin,
}

/// Every setting, in the order of the sections.
#[derive(Clone, Debug, Default)]
pub struct Report(Vec<Entry>);

impl Report {
    pub(super) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// The settings.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }
}

impl fmt::Display for Report {
    /// One line, for the log: what somebody has set, `NAME=value` without the common prefix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.0.iter().filter(|entry| entry.origin != Origin::Default);
        for (i, entry) in set.enumerate() {
            let name = entry.name.strip_prefix("ARKVORY_").unwrap_or(entry.name);
            write!(f, "{}{name}={}", if i > 0 { " " } else { "" }, entry.shown)?;
        }
        Ok(())
    }
}
