//! PostgreSQL; the only place with SQL.
//!
//! Functions borrow a connection, so the use case owns the transaction. Absence is `Ok(None)`; every change states how
//! many rows it must touch.

pub mod anchors;
pub mod artifacts;
pub mod assets;
pub mod connect;
pub mod error;
pub mod identity;
pub mod locks;
pub mod migrate;
pub mod policy;
mod pool;
pub mod schema;
pub mod slots;
pub mod uploads;

pub use error::Error;
pub use pool::{Catalog, within};
