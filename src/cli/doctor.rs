use std::fmt;
use std::net::IpAddr;

use anyhow::{Context as _, bail, ensure};

use super::{CHECK_REPOSITORY, say};
use crate::client::Remote;
use crate::client::settings::ClientSettings;
use crate::model::digest::Digest;
use crate::model::name::{AssetPath, Repository};

/// Bytes of the file that is published to check the way of a byte: the same at every run, so that a repeated check
/// publishes nothing new.
const SAMPLE_BYTES: usize = 64 * 1024;
/// The part of it that is read from every process.
const RANGE: std::ops::Range<usize> = 1_000..50_000;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A process to check, as http://NAME:PORT; a name with several addresses stands for all of them.
    #[arg(long, value_name = "URL", required = true)]
    process: Vec<String>,
    /// The address that clients use, in front of the processes.
    #[arg(long, value_name = "URL")]
    through: String,
    /// Where the sample is published.
    #[arg(long, default_value = CHECK_REPOSITORY)]
    repository: Repository,
    /// How many processes there must be.
    #[arg(long, value_name = "NUMBER")]
    expect: Option<usize>,
}

/// What was found out about one process.
struct Finding {
    name: String,
    what: Result<Health, String>,
}

struct Health {
    role: String,
    slot: String,
    share: u64,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let token = ClientSettings::from_process()?.token()?.clone();
    let front = Remote::new(&arguments.through, token.clone())?;
    let sample: Vec<u8> = (0..=250).cycle().take(SAMPLE_BYTES).collect();
    let path: AssetPath = "doctor/sample".parse()?;
    let published = front.put_bytes(sample.clone(), &arguments.repository, &path).await;
    published.with_context(|| format!("publishing through {} failed", arguments.through))?;

    let wanted = Digest::of(&sample[RANGE]);
    let mut findings = Vec::new();
    for url in addresses(&arguments.process).await? {
        let remote = Remote::new(&url, token.clone())?;
        let what = check(&remote, &arguments.repository, &path, wanted)
            .await
            .map_err(|error| format!("{error:#}"));
        findings.push(Finding { name: url, what });
    }
    let read = front.digest(&arguments.repository, &path, &range()).await;
    let read = read.with_context(|| format!("reading through {} failed", arguments.through))?;
    ensure!(
        read.digest == wanted,
        "{} gave other bytes than were published",
        arguments.through
    );

    findings.iter().for_each(say);
    say(format_args!(
        "{}  published {SAMPLE_BYTES} bytes, read a range back, same SHA-256",
        arguments.through
    ));
    let broken = findings.iter().filter(|finding| finding.what.is_err()).count();
    if broken > 0 {
        bail!("{broken} of {} processes are not in order", findings.len());
    }
    if let Some(expected) = arguments.expect {
        ensure!(
            findings.len() == expected,
            "{} processes were found, {expected} expected",
            findings.len()
        );
    }
    Ok(())
}

async fn check(remote: &Remote, repository: &Repository, path: &AssetPath, wanted: Digest) -> anyhow::Result<Health> {
    let ready = remote.ready().await.context("not ready")?;
    let read = remote
        .digest(repository, path, &range())
        .await
        .context("a range read failed")?;
    ensure!(read.digest == wanted, "other bytes than were published");
    Ok(Health {
        role: ready.role,
        slot: ready
            .shared_downloads
            .map_or_else(|| "-".to_owned(), |place| format!("{} of {}", place.slot, place.slots)),
        share: ready.transfers.downloads.bandwidth.bytes_per_second,
    })
}

fn range() -> String {
    format!("{}-{}", RANGE.start, RANGE.end - 1)
}

/// Every address behind every name.
async fn addresses(urls: &[String]) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for url in urls {
        let parsed = reqwest::Url::parse(url).with_context(|| format!("{url} is no URL"))?;
        let (host, port) = (
            parsed.host_str().unwrap_or_default(),
            parsed.port_or_known_default().unwrap_or(80),
        );
        let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
        let mut found: Vec<IpAddr> = found
            .with_context(|| format!("{host} has no address"))?
            .map(|at| at.ip())
            .collect();
        found.sort();
        found.dedup();
        all.extend(
            found
                .into_iter()
                .map(|ip| format!("{}://{}", parsed.scheme(), std::net::SocketAddr::new(ip, port))),
        );
    }
    Ok(all)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Ok(health) => write!(
                f,
                "{}  {:<6}  slot {:<8}  {:>13} bytes/s  ready, range read, same SHA-256",
                self.name, health.role, health.slot, health.share
            ),
            Err(problem) => write!(f, "{}  NOT IN ORDER: {problem}", self.name),
        }
    }
}
