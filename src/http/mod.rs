//! The doors: routes, the checks in front of them, and the sockets under them.

mod app;
mod body;
pub mod conditional;
mod connection;
mod content;
pub mod disposition;
mod front;
mod health;
mod options;
mod problem;
mod respond;
mod routes;
mod serve;

pub use app::{App, Member, Place};
pub use health::Health;
pub use routes::router;
pub use serve::serve;
