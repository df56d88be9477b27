use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::say;
use crate::catalog::connect::Database;
use crate::catalog::migrate::{Login, Rights, migrate};
use crate::clock::SystemClock;
use crate::config;
use secrecy::ExposeSecret as _;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// File with the database URL that the writer uses: its login is created or kept in order.
    #[arg(long, value_name = "FILE")]
    writer_url_file: Option<PathBuf>,
    /// File with the database URL that readers use: the same, with a reader's rights.
    #[arg(long, value_name = "FILE")]
    reader_url_file: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let settings = config::Migrate::from_process()?;
    let database = Database::new(settings.url.expose_secret(), "migrate")?;
    let files = [
        (arguments.writer_url_file, Rights::Writer),
        (arguments.reader_url_file, Rights::Reader),
    ];
    let mut logins = Vec::new();
    for (file, rights) in files {
        if let Some(file) = file {
            logins.push(login(&file, rights)?);
        }
    }
    let applied = migrate(&database, &logins, &SystemClock)
        .await
        .context("the database was not migrated")?;
    say(format_args!(
        "schema up to date ({applied} applied now), {} logins in order",
        logins.len()
    ));
    Ok(())
}

fn login(file: &Path, rights: Rights) -> anyhow::Result<Login> {
    let url = std::fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    Login::of(url.trim(), rights).with_context(|| format!("{} holds no database URL with a password", file.display()))
}
