use std::path::PathBuf;

use anyhow::Context as _;

use super::say;
use super::target::Target;
use crate::client::Remote;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What: REPOSITORY/PATH, for example releases/app/1.0/app.tar.gz.
    target: Target,
    /// Where to: a file (default: the last segment of the path, here).
    file: Option<PathBuf>,
    /// Ask this process instead of ARKVORY_SERVER, for example http://10.0.0.7:8080.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Only these bytes, first and last, for example 0-1023.
    #[arg(long, value_name = "FIRST-LAST")]
    range: Option<String>,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments {
        target,
        file,
        from,
        range,
    } = arguments;
    let server = match from {
        Some(url) => Remote::from_environment_at(&url)?,
        None => Remote::from_environment()?,
    };
    let file = file.unwrap_or_else(|| PathBuf::from(target.path.file_name().as_str()));
    let got = server
        .get(&target.repository, &target.path, range.as_deref(), &file)
        .await
        .with_context(|| format!("{}/{} was not downloaded", target.repository, target.path))?;
    let slot = got.slot.map(|slot| format!(" from slot {slot}")).unwrap_or_default();
    say(format_args!(
        "{} ({} bytes, sha256 {}{slot})",
        file.display(),
        got.size,
        got.digest
    ));
    Ok(())
}
