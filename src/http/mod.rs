//! The doors.

pub mod conditional;
pub mod disposition;
