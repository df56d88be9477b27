//! PostgreSQL; the only place with SQL.

pub mod anchors;
pub mod connect;
pub mod error;
pub mod identity;
pub mod locks;
pub mod policy;
pub mod schema;
pub mod slots;
