//! How much may flow.
