use std::path::PathBuf;

use anyhow::Context as _;

use super::say;
use super::target::Target;
use crate::client::Remote;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The file to publish.
    file: PathBuf,
    /// Where: REPOSITORY/PATH, for example releases/app/1.0/app.tar.gz.
    target: Target,
    /// Fail if the path is there already.
    #[arg(long)]
    new: bool,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { file, target, new } = arguments;
    let server = Remote::from_environment()?;
    let published = server
        .put(&file, &target.repository, &target.path, new)
        .await
        .with_context(|| format!("{} was not published", file.display()))?;
    let what = if published.created {
        "published"
    } else {
        "was there already:"
    };
    say(format_args!(
        "{what} {}/{} revision {} ({} bytes, sha256 {})",
        target.repository, published.path, published.revision, published.artifact.size, published.artifact.sha256
    ));
    Ok(())
}
