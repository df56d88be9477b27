//! How much may flow (docs/spec/bandwidth.md).
//!
//! [`share`] says which rates hold for this process, [`governor`] decides who may send how many bytes next (a pure
//! machine over [`bucket`]s), and [`meter`] is what a response body holds: it waits on the governor and asks for trust
//! before and after every grant.

pub mod bucket;
mod error;
pub mod governor;
pub mod meter;
pub mod share;

pub use error::Error;
