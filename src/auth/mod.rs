//! Keys and what they allow.
