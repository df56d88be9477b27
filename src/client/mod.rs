//! Talks to an installation.

pub mod remote;
pub mod settings;

pub use remote::Remote;
