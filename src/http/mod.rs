//! The doors.

pub mod conditional;
