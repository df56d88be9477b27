//! Commands of the binary.
#![expect(clippy::doc_markdown, reason = "clap shows these comments as help")]

mod doctor;
mod get;
#[cfg(feature = "server")]
mod healthcheck;
#[cfg(feature = "server")]
mod init;
mod key;
#[cfg(feature = "server")]
mod migrate;
mod put;
mod target;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Where `doctor` publishes its sample, so that it does not stand among the user's files. `init` gives the owner's key
/// the right to it.
const CHECK_REPOSITORY: &str = "arkvory-check";

/// A self-hosted artifact server: one writer and up to fifteen readers under one download rate.
#[derive(Parser)]
#[command(name = "arkvory", version, about, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the role that ARKVORY_ROLE names (this is the default).
    #[cfg(feature = "server")]
    Serve,
    /// Bring the database's schema up to date and its logins in order.
    #[cfg(feature = "server")]
    Migrate(migrate::Arguments),
    /// Make the secrets of a new installation, once.
    #[cfg(feature = "server")]
    Init(init::Arguments),
    /// Exit with 0 if the process on this host is ready.
    #[cfg(feature = "server")]
    Healthcheck,
    /// Check a running installation from outside.
    Doctor(doctor::Arguments),
    /// Publish a file at a path.
    Put(put::Arguments),
    /// Download the file at a path.
    Get(get::Arguments),
    /// Print the key that the other commands use.
    Key,
}

/// Runs the command line. Mistakes go to standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let outcome = match arguments.command {
        #[cfg(feature = "server")]
        None | Some(Command::Serve) => return crate::role::serve(),
        #[cfg(not(feature = "server"))]
        None => Err(anyhow::anyhow!("this build has only the client; see --help")),
        #[cfg(feature = "server")]
        Some(Command::Migrate(arguments)) => block_on(migrate::run(arguments)),
        #[cfg(feature = "server")]
        Some(Command::Init(arguments)) => init::run(&arguments),
        #[cfg(feature = "server")]
        Some(Command::Healthcheck) => block_on(healthcheck::run()),
        Some(Command::Doctor(arguments)) => block_on(doctor::run(arguments)),
        Some(Command::Put(arguments)) => block_on(put::run(arguments)),
        Some(Command::Get(arguments)) => block_on(get::run(arguments)),
        Some(Command::Key) => key::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("arkvory: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command until it is done or told to stop. As the first process of a container it would not be ended by a signal
/// that it doesn't ask for.
fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            outcome = command => outcome,
            _ = terminate.recv() => anyhow::bail!("ended by a signal"),
            _ = interrupt.recv() => anyhow::bail!("ended by a signal"),
        }
    })
}

/// Prints one line of a command's result.
#[expect(clippy::print_stdout, reason = "standard output is where commands answer")]
fn say(line: impl std::fmt::Display) {
    println!("{line}");
}
