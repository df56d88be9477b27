//! How much may flow (docs/spec/bandwidth.md).

pub mod bucket;
mod error;
pub mod governor;
pub mod share;

pub use error::Error;
