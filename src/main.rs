//! The one binary: a process of an installation, or a command.

use std::process::ExitCode;

fn main() -> ExitCode {
    arkvory::cli::run(std::env::args_os())
}
