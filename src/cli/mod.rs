//! Commands of the binary.
