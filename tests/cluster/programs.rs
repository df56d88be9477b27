//! Programs outside of this one: Compose, the scripts in deploy/, curl and its like.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;

use crate::patience::within;

/// Longer than anything that a test runs, which may be the build of an image.
const LIMIT: Duration = Duration::from_mins(10);

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Takes away what the caller's environment could change in the stack, except which image is meant.
pub(crate) fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let setting = text.starts_with("ARKVORY_") || text.starts_with("COMPOSE_") || text.starts_with("OTEL_");
        if setting && text != "ARKVORY_IMAGE" {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a program to its end. Bounded, and killed when the test ends before it.
pub(crate) async fn finish(command: &mut Command) -> anyhow::Result<Output> {
    let name = command.as_std().get_program().display().to_string();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let output = within(&name, LIMIT, command.output()).await?;
    output.with_context(|| format!("{name} can't be run"))
}

/// The standard output of a program that must succeed.
pub(crate) async fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = finish(command).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{:?} ended with {}:\n{text}\n{error}", command.as_std(), output.status);
    }
    Ok(text)
}
