//! My slot, and the ownership of the storage.
