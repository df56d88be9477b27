//! The volume: immutable files on a local file system that the writer and all readers share (docs/spec/storage.md).
//!
//! The life of a file: [`Volume::stage`] takes bytes and hashes them, [`Staged::finish`] tells size and digest,
//! [`Sealed::publish`] gives the file its final name, [`Volume::open`] protects it from the collector while it is read,
//! [`Volume::remove_blob`] takes the name away again. What a name means to users is not known here.

mod blob;
mod blocking;
mod buffers;
mod certify;
mod counters;
pub mod durable;
mod error;
mod identity;
mod layout;
mod publish;
mod reader;
mod reclaim;
mod space;
mod staged;
mod steps;
#[cfg(test)]
mod tests;
mod volume;

pub use blob::Blob;
pub use counters::Counts;
pub use error::{Error, OpenError, ReadError, StartError};
pub use publish::{Apart, Published, Sealed, Stored};
pub use reader::Reader;
pub use reclaim::Removal;
pub use staged::Staged;
pub use steps::{Step, Steps};
pub use volume::Volume;
