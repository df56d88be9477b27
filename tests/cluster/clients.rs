//! The programs that people use: curl, wget and aria2, with more than a gigabyte of real files. Every file that comes
//! out has the SHA-256 that it had when it went in.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;
use tokio::fs;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::http::raw;
use crate::patience::eventually;
use crate::programs::{finish, output};
use crate::stack::{Policy, Slot, Stack};

/// Archives of crates are there wherever this was compiled; so are the base images, and the image itself.
const IMAGES: [&str; 2] = ["rust:1.95-slim-trixie", "postgres:17-trixie"];
const ENOUGH: u64 = 1 << 30;
/// A download is interrupted when this much of it is here.
const PERCENT: u64 = 37;

/// Files to be published, with their digests.
struct Input {
    dir: TempDir,
    /// Many small files.
    crates: Vec<String>,
    /// Few large ones.
    images: Vec<String>,
    sizes: u64,
}

/// Where a client works, and whom it asks.
struct Desk<'a> {
    stack: &'a Stack,
    key: String,
    input: &'a Input,
    dir: TempDir,
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_wget_and_aria2_get_a_gigabyte_of_real_files_whole() -> anyhow::Result<()> {
    for (program, package) in [
        ("curl", "curl"),
        ("wget", "wget"),
        ("aria2c", "aria2"),
        ("sha256sum", "coreutils"),
    ] {
        need(program, package).await?;
    }
    let stack = Stack::start(Policy::FAST, &[Slot::Auto; 3]).await?;
    let input = Input::gather(&stack.ground.writer()?.image).await?;
    assert!(input.sizes >= ENOUGH, "only {} bytes of input", input.sizes);
    println!(
        "{} crates, {} images, {} bytes",
        input.crates.len(),
        input.images.len(),
        input.sizes
    );

    Desk::new(&stack, &input)?.publish_with_curl().await?;
    Desk::new(&stack, &input)?.curl().await.context("curl")?;
    Desk::new(&stack, &input)?.wget().await.context("wget")?;
    Desk::new(&stack, &input)?.aria2().await.context("aria2c")?;
    for node in stack.processes() {
        let body = node.readiness(stack.http()).await?;
        let granted = body["transfers"]["downloads"]["bandwidth"]["grantedBytes"]
            .as_str()
            .unwrap_or_default();
        assert!(
            granted.parse::<u64>()? > ENOUGH / 10,
            "a process hardly took part: {body}"
        );
    }
    Ok(())
}

async fn need(program: &str, package: &str) -> anyhow::Result<()> {
    let found = finish(Command::new(program).arg("--version")).await;
    ensure!(
        found.is_ok_and(|output| output.status.success()),
        "{program} is missing: install the package {package} (`deploy/test tools` does, as root)"
    );
    Ok(())
}

impl Input {
    async fn gather(ours: &str) -> anyhow::Result<Self> {
        let dir = TempDir::new()?;
        let (mut crates, mut images, mut sizes) = (Vec::new(), Vec::new(), 0);
        for from in crate_archives().await? {
            let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // The same crate may lie there for two registries.
            if !crates.contains(&name) {
                sizes += fs::copy(&from, dir.path().join(&name)).await?;
                crates.push(name);
            }
        }
        for image in IMAGES.into_iter().chain([ours]) {
            let name = format!("{}.tar", image.replace([':', '/'], "-"));
            output(
                Command::new("docker")
                    .args(["save", "--output"])
                    .arg(dir.path().join(&name))
                    .arg(image),
            )
            .await?;
            sizes += fs::metadata(dir.path().join(&name)).await?.len();
            images.push(name);
        }
        let input = Self {
            dir,
            crates,
            images,
            sizes,
        };
        let all = input.crates.iter().chain(&input.images);
        let digests = output(Command::new("sha256sum").args(all).current_dir(input.dir.path())).await?;
        fs::write(input.path("digests"), digests).await?;
        Ok(input)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The line of `sha256sum` for a file.
    async fn digest(&self, name: &str) -> anyhow::Result<String> {
        let digests = fs::read_to_string(self.path("digests")).await?;
        let line = digests.lines().find(|line| line.ends_with(&format!("  {name}")));
        Ok(line.with_context(|| format!("no digest of {name}"))?.to_owned())
    }
}

/// What cargo has downloaded.
async fn crate_archives() -> anyhow::Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .context("no home of cargo")?;
    let cache = home.join("registry/cache");
    let mut found = Vec::new();
    let mut registries = fs::read_dir(&cache)
        .await
        .with_context(|| format!("{}", cache.display()))?;
    while let Some(registry) = registries.next_entry().await? {
        let mut files = fs::read_dir(registry.path()).await?;
        while let Some(file) = files.next_entry().await? {
            if file.path().extension().is_some_and(|end| end == "crate") {
                found.push(file.path());
            }
        }
    }
    found.sort();
    ensure!(!found.is_empty(), "no crates in {}", cache.display());
    Ok(found)
}

impl<'a> Desk<'a> {
    fn new(stack: &'a Stack, input: &'a Input) -> anyhow::Result<Self> {
        let key = format!("Authorization: Bearer {}", stack.http().key().context("no key")?);
        Ok(Self {
            stack,
            key,
            input,
            dir: TempDir::new()?,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn url(&self, name: &str) -> String {
        self.stack.proxy.url(&raw(&format!("real/{name}")))
    }

    /// A client that works in the desk's folder and takes no other proxy than ours.
    fn client(&self, program: &str, options: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(options).current_dir(self.dir.path());
        for name in [
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
    }

    fn curl_command(&self, options: &[&str]) -> Command {
        let mut command = self.client("curl", &["--silent", "--show-error", "--fail", "--header", &self.key]);
        command.args(options);
        command
    }

    fn wget_command(&self, options: &[&str]) -> Command {
        let mut command = self.client("wget", &["--no-verbose", "--no-config", "--header", &self.key]);
        command.args(options);
        command
    }

    fn aria2_command(&self, options: &[&str]) -> Command {
        let quiet = [
            "--no-conf",
            "--console-log-level=warn",
            "--summary-interval=0",
            "--download-result=hide",
        ];
        let mut command = self.client("aria2c", &quiet);
        command.args([
            "--max-connection-per-server=16",
            "--split=16",
            "--min-split-size=1M",
            "--file-allocation=none",
        ]);
        command.args(["--header", &self.key]).args(options);
        command
    }

    /// Every file by `curl --upload-file`, all in one run of curl.
    async fn publish_with_curl(&self) -> anyhow::Result<()> {
        let files = self.input.crates.iter().chain(&self.input.images);
        let entry = |name: &String| {
            let path = self.input.path(name);
            format!("upload-file = \"{}\"\nurl = \"{}\"\n", path.display(), self.url(name))
        };
        let list = files.map(entry).collect::<Vec<_>>().concat() + "write-out = \"\\n%{http_code}\\n\"\n";
        fs::write(self.path("list"), list).await?;
        let said = output(&mut self.curl_command(&["--config", "list"])).await?;
        let created = said.lines().filter(|&line| line == "201").count();
        assert_eq!(created, self.input.crates.len() + self.input.images.len(), "{said}");
        Ok(())
    }

    async fn curl(&self) -> anyhow::Result<()> {
        let entry = |name: &String| format!("output = \"{name}\"\nurl = \"{}\"\n", self.url(name));
        let list = self.input.crates.iter().map(entry).collect::<Vec<_>>().concat();
        fs::write(self.path("list"), list).await?;
        output(&mut self.curl_command(&["--config", "list"])).await?;
        self.verify(&self.input.crates).await?;

        for name in &self.input.images {
            let url = self.url(name);
            let options = ["--output", name.as_str(), url.as_str()];
            self.interrupt(self.curl_command(&options), name).await?;
            output(self.curl_command(&["--continue-at", "-"]).args(options)).await?;
            self.verify([name]).await?;
        }

        // In four pieces, each by a request of its own.
        let name = &self.input.images[1];
        let size = fs::metadata(self.input.path(name)).await?.len();
        let mut whole = fs::File::create(self.path(name)).await?;
        let borders: Vec<u64> = (0..=4).map(|part| size * part / 4).collect();
        for border in borders.windows(2) {
            let range = format!("{}-{}", border[0], border[1] - 1);
            output(&mut self.curl_command(&["--range", &range, "--output", "piece", &self.url(name)])).await?;
            let piece = fs::read(self.path("piece")).await?;
            ensure!(
                piece.len() as u64 == border[1] - border[0],
                "{} bytes for {range}",
                piece.len()
            );
            whole.write_all(&piece).await?;
        }
        whole.flush().await?;
        drop(whole);
        self.verify([name]).await
    }

    async fn wget(&self) -> anyhow::Result<()> {
        let list: String = self.input.crates.iter().map(|name| self.url(name) + "\n").collect();
        fs::write(self.path("list"), list).await?;
        output(&mut self.wget_command(&["--input-file", "list"])).await?;
        self.verify(&self.input.crates).await?;
        for name in &self.input.images {
            let url = self.url(name);
            self.interrupt(self.wget_command(&[&url]), name).await?;
            output(&mut self.wget_command(&["--continue", &url])).await?;
            self.verify([name]).await?;
        }
        Ok(())
    }

    async fn aria2(&self) -> anyhow::Result<()> {
        let entry = |name: &String| format!("{}\n  out={name}\n", self.url(name));
        let list = self.input.crates.iter().map(entry).collect::<Vec<_>>().concat();
        fs::write(self.path("list"), list).await?;
        output(&mut self.aria2_command(&["--input-file=list"])).await?;
        self.verify(&self.input.crates).await?;
        for name in &self.input.images {
            output(&mut self.aria2_command(&[&self.url(name)])).await?;
            self.verify([name]).await?;
        }
        Ok(())
    }

    /// Runs a download and ends it, without a word, when a good third of the file is here.
    async fn interrupt(&self, mut command: Command, name: &str) -> anyhow::Result<()> {
        let size = fs::metadata(self.input.path(name)).await?.len();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut client = command.spawn()?;
        let path = self.path(name);
        let length = async |path: &Path| fs::metadata(path).await.map_or(0, |file| file.len());
        let third = eventually("a third of the file", Duration::from_mins(1), async || {
            if let Some(status) = client.try_wait()? {
                bail!(
                    "the client ended with {status} after {} bytes of {size}",
                    length(&path).await
                );
            }
            Ok((length(&path).await >= size * PERCENT / 100).then_some(()))
        });
        third.await?;
        client.kill().await?;
        let left = size - length(&path).await;
        ensure!(left > 0, "{name} was complete before it could be interrupted");
        Ok(())
    }

    /// Compares files with what was published, and removes them.
    async fn verify(&self, names: impl IntoIterator<Item = &'a String>) -> anyhow::Result<()> {
        let names: Vec<&String> = names.into_iter().collect();
        let mut wanted = String::new();
        for name in &names {
            wanted += &(self.input.digest(name).await? + "\n");
        }
        fs::write(self.path("wanted"), wanted).await?;
        output(
            self.client("sha256sum", &["--check", "--quiet", "--strict", "wanted"])
                .env("LC_ALL", "C"),
        )
        .await?;
        for name in names {
            fs::remove_file(self.path(name)).await?;
        }
        Ok(())
    }
}
