//! Talks to an installation.
