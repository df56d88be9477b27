//! The volume.
