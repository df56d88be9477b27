//! Talks to an installation.

pub mod settings;
