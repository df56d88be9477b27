//! Arkvory: one writer and up to fifteen readers that share a volume and a PostgreSQL database, under one download rate.
//!
//! The modules stand in floors; a module imports only from floors below its own (`tests/floors.rs` checks it).
//! docs/ARCHITECTURE.md walks through a publish and a fetch.

// floor 0: words
pub mod clock;
pub mod model;

// floor 1: agreements
#[cfg(feature = "server")]
pub mod config;
pub mod wire;

// floor 2: the process
#[cfg(feature = "server")]
pub mod supervise;
#[cfg(feature = "server")]
pub mod telemetry;

// floor 3: the outside world
#[cfg(feature = "server")]
pub mod auth;
#[cfg(feature = "server")]
pub mod catalog;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod storage;

// floor 4: keepers
#[cfg(feature = "server")]
pub mod budget;
#[cfg(feature = "server")]
pub mod lease;

// floor 7: the work
#[cfg(feature = "server")]
pub mod artifact;

// floor 8: doors
#[cfg(feature = "server")]
pub mod http;

// floor 9: assemblies
#[cfg(feature = "client")]
pub mod cli;
#[cfg(feature = "server")]
pub mod role;
