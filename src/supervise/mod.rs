//! Tasks, signals and the order of stopping.
