//! What a process consists of.
