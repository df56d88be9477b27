//! Use cases: one per file.
