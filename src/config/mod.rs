//! Reads the environment; the only place that does.
