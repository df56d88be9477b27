//! Everything that crosses a socket, shared by both ends.
