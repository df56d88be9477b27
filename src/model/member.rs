//! The processes of an installation.

use std::fmt;

/// What a process does (docs/spec/roles.md 1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The writer: everything, in slot 0.
    Api,
    /// A read gateway: GET and HEAD only, in slots 1 to 15.
    Reader,
}

impl Role {
    /// The word used in configuration, readiness and capabilities.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Reader => "reader",
        }
    }
}

/// A numbered place in the installation, 0 to 15, which carries one equal share of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// The writer's place.
    pub const WRITER: Self = Self(0);
    /// How many slots there can be.
    pub const MOST: u8 = 16;

    /// The slot with this number; `None` above 15.
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::MOST { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
