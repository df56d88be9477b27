//! Makes the secrets of an installation, once, each in the folder of those who need it (docs/spec/containers.md).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::{CHECK_REPOSITORY, say};
use crate::model::digest::Digest;
use crate::model::name::Repository;
use crate::storage::durable;

/// The user that the image's processes run as.
const USER: u32 = 10001;
const DATABASE: &str = "arkvory";
/// Owns the tables; PostgreSQL is started with it.
const OWNER_LOGIN: &str = "arkvory";
const OWNER_KEY: &str = "bootstrap-owner";
const HEALTH_KEY: &str = "deployment-health";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folder of what PostgreSQL and `migrate` need.
    #[arg(long, value_name = "DIR", default_value = "/secrets/database")]
    database_dir: PathBuf,
    /// Folder of what the writer needs.
    #[arg(long, value_name = "DIR", default_value = "/secrets/writer")]
    writer_dir: PathBuf,
    /// Folder of what readers need.
    #[arg(long, value_name = "DIR", default_value = "/secrets/reader")]
    reader_dir: PathBuf,
    /// Folder of the owner's key.
    #[arg(long, value_name = "DIR", default_value = "/secrets/owner")]
    owner_dir: PathBuf,
    /// Data directory: only its owner is set.
    #[arg(long, value_name = "DIR", default_value = "/data")]
    data_dir: PathBuf,
    /// Host name of the database.
    #[arg(long, default_value = "postgres")]
    database_host: String,
    /// Repositories that the owner's key may read and write.
    #[arg(long, value_delimiter = ',', default_value = "releases")]
    repositories: Vec<Repository>,
    /// Add the repositories to an owner's key that is there already.
    #[arg(long)]
    grant: bool,
}

/// Who may read a file that is made here.
#[derive(Clone, Copy)]
enum For {
    /// Root, before it drops its rights.
    Root,
    /// Our processes.
    Processes,
    /// Whoever the volume is given to.
    Anyone,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut made = Vec::new();
    let mut once = |dir: &Path, name: &str, whom: For, content: &dyn Fn() -> anyhow::Result<String>| {
        let path = dir.join(name);
        if !path.exists() {
            write(&path, &content()?, whom)?;
            made.push(path.display().to_string());
        }
        // Also where an earlier run was ended between the two.
        if let For::Processes = whom {
            own(&path, USER)?;
        }
        std::fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))
    };
    let url = |login: &str, password: &str| {
        format!(
            "postgres://{login}:{password}@{}:5432/{DATABASE}\n",
            arguments.database_host
        )
    };

    let Arguments {
        database_dir,
        writer_dir,
        reader_dir,
        owner_dir,
        ..
    } = arguments;
    let password = once(database_dir, "password", For::Root, &secret)?;
    once(database_dir, "url", For::Processes, &|| {
        Ok(url(OWNER_LOGIN, password.trim()))
    })?;
    once(writer_dir, "database-url", For::Processes, &|| {
        Ok(url("arkvory_writer", &secret()?))
    })?;
    once(reader_dir, "database-url", For::Processes, &|| {
        Ok(url("arkvory_reader", &secret()?))
    })?;
    let owner = once(owner_dir, "owner.key", For::Anyone, &secret)?;
    let health = once(owner_dir, "health.key", For::Anyone, &secret)?;
    let mut repositories = arguments.repositories.clone();
    repositories.push(CHECK_REPOSITORY.parse()?);
    let keys = || keys_file(owner.trim(), health.trim(), &repositories);
    once(writer_dir, "keys.json", For::Processes, &keys)?;
    once(reader_dir, "keys.json", For::Processes, &keys)?;
    own(&arguments.data_dir, USER)?;

    if made.is_empty() {
        say("the secrets are there already; nothing was changed");
    } else {
        say(format_args!("made {}", made.join(", ")));
    }
    if arguments.grant {
        for dir in [writer_dir, reader_dir] {
            grant(&dir.join("keys.json"), &arguments.repositories)?;
        }
        say("the owner's key covers these repositories now; restart writer and readers");
    }
    Ok(())
}

/// 256 random bits.
fn secret() -> anyhow::Result<String> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).context("the system gave no random bits")?;
    Ok(Digest::from_bytes(bits).to_string())
}

fn keys_file(owner: &str, health: &str, repositories: &[Repository]) -> anyhow::Result<String> {
    let keys = json!([
        {
            "id": OWNER_KEY, "sha256": Digest::of(owner).to_string(), "repositories": repositories,
            "permissions": ["read", "write"], "administrator": true, "serviceAdministrator": true
        },
        { "id": HEALTH_KEY, "sha256": Digest::of(health).to_string(), "repositories": [], "permissions": [] }
    ]);
    Ok(serde_json::to_string_pretty(&keys)? + "\n")
}

/// Adds repositories to the owner's entry, and leaves everything else in the file as it is.
fn grant(path: &Path, repositories: &[Repository]) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let mut keys: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let entries = keys.as_array_mut().into_iter().flatten();
    let owner = entries.into_iter().find(|key| key["id"] == OWNER_KEY);
    let Some(listed) = owner.and_then(|key| key["repositories"].as_array_mut()) else {
        bail!("{} has no key {OWNER_KEY}", path.display());
    };
    for repository in repositories {
        if !listed.iter().any(|listed| listed == repository.as_str()) {
            listed.push(json!(repository));
        }
    }
    let text = serde_json::to_string_pretty(&keys)? + "\n";
    durable::replace(path, text.as_bytes(), 0o400).with_context(|| format!("{} can't be written", path.display()))?;
    own(path, USER)
}

fn write(path: &Path, content: &str, whom: For) -> anyhow::Result<()> {
    let mode = match whom {
        For::Root | For::Processes => 0o400,
        For::Anyone => 0o444,
    };
    durable::replace(path, content.as_bytes(), mode).with_context(|| format!("{} can't be written", path.display()))
}

fn own(path: &Path, user: u32) -> anyhow::Result<()> {
    std::os::unix::fs::chown(path, Some(user), Some(user))
        .with_context(|| format!("the owner of {} can't be set", path.display()))
}
