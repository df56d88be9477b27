//! The commands that users type, on a copy of this repository: up, key, put, get, scaling, down.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::docker::{Run, docker, remains};
use crate::http::{Http, noise, raw};
use crate::load::download_resuming;
use crate::patience::{eventually, within};
use crate::programs::{finish, output, root, without_settings};
use crate::proxy::Proxy;
use crate::stack::{ONE_AT_A_TIME, Policy};

/// What a build and the scripts need of the repository, and the folder of tools that it has fetched.
const FILES: [&str; 12] = [
    "Cargo.toml",
    "Cargo.lock",
    "Dockerfile",
    ".dockerignore",
    ".env.example",
    "compose.yaml",
    "src",
    "migrations",
    ".sqlx",
    "haproxy",
    "deploy",
    ".tools",
];

/// A copy of the repository with a project name, ports and an image of its own, so that it can run beside any other.
struct Checkout {
    dir: TempDir,
    run: Run,
    image: String,
}

impl Checkout {
    async fn make() -> anyhow::Result<Self> {
        let run = Run::begin().await?;
        let dir = TempDir::new()?;
        for name in FILES {
            let from = root().join(name);
            if from.exists() {
                output(Command::new("cp").arg("-r").arg(from).arg(dir.path())).await?;
            }
        }
        let image = format!("arkvory:{}", run.name());
        // Port 0 is any that is free. The policy is smaller than the default, so that downloads last.
        let Policy { bytes_per_second, .. } = Policy::FAST;
        let settings = format!(
            "COMPOSE_PROJECT_NAME={}\nARKVORY_IMAGE={image}\nARKVORY_PUBLISH=127.0.0.1:0\nARKVORY_PUBLISH_ADMIN=127.0.0.1:0\n\
             ARKVORY_GATEWAY_SLOTS=8\nARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND={}\n",
            run.name(),
            bytes_per_second / 2
        );
        tokio::fs::write(dir.path().join(".env"), settings).await?;
        Ok(Self { dir, run, image })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A script of deploy/ with its arguments, to be run in a folder of the user's.
    fn script(&self, line: &str, folder: &Path) -> Command {
        let mut words = line.split_whitespace();
        let mut command = Command::new(self.path().join("deploy").join(words.next().unwrap_or_default()));
        command.args(words).current_dir(folder);
        // The settings are in the copy's .env, also which image.
        without_settings(&mut command).env_remove("ARKVORY_IMAGE");
        command
    }

    async fn run(&self, line: &str) -> anyhow::Result<String> {
        output(&mut self.script(line, self.path())).await
    }

    /// The containers of a service, by their number.
    async fn containers(&self, service: &str) -> anyhow::Result<Vec<String>> {
        let ids = self.run(&format!("compose ps --quiet {service}")).await?;
        Ok(ids.lines().map(str::to_owned).collect())
    }

    async fn address(&self, port: u16) -> anyhow::Result<String> {
        Ok(format!(
            "http://{}",
            self.run(&format!("compose port haproxy {port}")).await?.trim()
        ))
    }
}

impl Drop for Checkout {
    /// The image can go only after its containers.
    fn drop(&mut self) {
        self.run.remove();
        let removed = std::process::Command::new("docker")
            .args(["image", "rm", "--force", &self.image])
            .output();
        if !removed.is_ok_and(|output| output.status.success()) {
            eprintln!("the image {} was not removed", self.image);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_work() -> anyhow::Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let checkout = Checkout::make().await?;

    let said = checkout.run("up").await?;
    assert!(
        said.contains("Arkvory is up after") && said.contains("one writer and 3 readers"),
        "{said}"
    );
    restrictions_of_compose_hold(&checkout).await?;
    a_second_up_changes_nothing(&checkout).await?;

    let key = checkout.run("key").await?;
    let http = Http::with_key(key.trim())?;
    let proxy = Proxy::at(checkout.address(8080).await?, checkout.address(8404).await?);
    put_and_get(&checkout, &http, &proxy).await?;
    println!("{}", scaling_up_and_down(&checkout, &http, &proxy).await?);

    let said = checkout.run("down --volumes").await?;
    assert!(said.contains("No volume of it is left"), "{said}");
    let left = remains(&docker().await?, checkout.run.name()).await?;
    assert!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

async fn a_second_up_changes_nothing(checkout: &Checkout) -> anyhow::Result<()> {
    let before = checkout.containers("").await?;
    let said = checkout.run("up").await?;
    assert!(said.contains("already up, nothing changed"), "{said}");
    assert_eq!(checkout.containers("").await?, before, "containers were made anew");
    Ok(())
}

/// What docs/spec/containers.md promises of every container, as Docker sees it.
async fn restrictions_of_compose_hold(checkout: &Checkout) -> anyhow::Result<()> {
    for service in ["postgres", "writer", "reader", "haproxy"] {
        let ids = checkout.containers(service).await?;
        ensure!(!ids.is_empty(), "no container of {service}");
        for id in ids {
            let text = output(Command::new("docker").args(["inspect", &id])).await?;
            let found: Value = serde_json::from_str(&text)?;
            restricted(service, &found[0]).with_context(|| format!("{service}: {}", found[0]["HostConfig"]))?;
        }
    }
    Ok(())
}

fn restricted(service: &str, container: &Value) -> anyhow::Result<()> {
    let host = &container["HostConfig"];
    ensure!(host["ReadonlyRootfs"] == true, "the root can be written to");
    ensure!(host["CapDrop"] == json!(["ALL"]), "capabilities are left");
    ensure!(
        host["SecurityOpt"][0] == "no-new-privileges:true",
        "new privileges can be had"
    );
    ensure!(
        host["Memory"].as_i64() > Some(0) && host["PidsLimit"].as_i64() > Some(0),
        "no limits"
    );
    ensure!(
        host["LogConfig"]["Config"]["max-size"].is_string(),
        "logs grow for ever"
    );
    ensure!(host["RestartPolicy"]["Name"] == "unless-stopped", "not restarted");
    let published = host["PortBindings"].as_object().is_some_and(|ports| !ports.is_empty());
    ensure!(
        published == (service == "haproxy"),
        "published ports (docs/spec/containers.md 11.5.1)"
    );
    let mounts = container["Mounts"].as_array().into_iter().flatten();
    let data = mounts.into_iter().find(|mount| mount["Destination"] == "/data");
    match service {
        "writer" => ensure!(data.is_some_and(|data| data["RW"] == true), "the files are read-only"),
        "reader" => ensure!(data.is_some_and(|data| data["RW"] == false), "the files can be changed"),
        _ => ensure!(data.is_none(), "the files are mounted"),
    }
    // 15 s above the drain window (docs/spec/containers.md 11.9.1).
    if matches!(service, "writer" | "reader") {
        ensure!(container["Config"]["User"] == "10001:10001", "another user");
        ensure!(host["CapAdd"].is_null(), "a capability was added");
        ensure!(container["Config"]["StopTimeout"] == 45, "another grace period");
    }
    Ok(())
}

/// `cli put` and `cli get`, as the README has them (docs/spec/containers.md 11.4).
async fn put_and_get(checkout: &Checkout, http: &Http, proxy: &Proxy) -> anyhow::Result<()> {
    let user = TempDir::new()?;
    let content = noise(6, 5_000_000);
    tokio::fs::write(user.path().join("app.tar.gz"), &content).await?;
    let cli = async |line: &str| {
        let line = format!("compose run --rm --no-deps -T cli {line}");
        output(&mut checkout.script(&line, user.path())).await
    };
    let said = cli("put app.tar.gz releases/app/1.0/app.tar.gz").await?;
    assert!(
        said.contains("app/1.0/app.tar.gz") && said.contains("5000000 bytes"),
        "{said}"
    );
    let again = cli("put app.tar.gz releases/app/1.0/app.tar.gz").await?;
    assert!(again.contains("there already"), "{again}");
    let direct = http.get(&proxy.url(&raw("app/1.0/app.tar.gz"))).await?;
    assert!(
        direct.status == 200 && direct.body == content,
        "put published other bytes"
    );

    cli("get releases/app/1.0/app.tar.gz back").await?;
    assert_same(&user.path().join("back"), &content).await?;
    let said = cli("get --from http://reader:8080 --range 1000-1999 releases/app/1.0/app.tar.gz piece").await?;
    assert!(said.contains("slot"), "{said}");
    assert_same(&user.path().join("piece"), &content.slice(1000..2000)).await?;

    // A mistake says so and ends with another code.
    let line = "compose run --rm --no-deps -T cli get releases/app/1.0/absent";
    let failed = finish(&mut checkout.script(line, user.path())).await?;
    assert!(!failed.status.success(), "{failed:?}");
    assert!(
        !user.path().join("absent").exists(),
        "a download that failed left a file"
    );
    Ok(())
}

async fn assert_same(path: &PathBuf, content: &Bytes) -> anyhow::Result<()> {
    let found = tokio::fs::read(path).await?;
    assert!(
        found == *content,
        "{}: {} bytes, and not the right ones",
        path.display(),
        found.len()
    );
    Ok(())
}

/// docs/spec/haproxy.md 10.4: readers come and go while downloads run, and clients that resume notice nothing.
async fn scaling_up_and_down(checkout: &Checkout, http: &Http, proxy: &Proxy) -> anyhow::Result<String> {
    const CLIENTS: usize = 6;
    // A second and a half of one process, shared by one or two clients.
    let content = noise(7, usize::try_from(96 * crate::stack::MIB)?);
    let url = proxy.url(&raw("scaled"));
    assert_eq!(http.put(&url, content.clone()).await?.status, 201);

    let stop = tokio_util::sync::CancellationToken::new();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (http, url, content, stop) = (http.clone(), url.clone(), content.clone(), stop.clone());
        clients.spawn(async move {
            let (mut whole, mut resumed) = (0, 0);
            // Each goes on until the end of the scaling, and finishes what it has begun.
            while !stop.is_cancelled() {
                resumed += within(
                    "a download",
                    Duration::from_mins(2),
                    download_resuming(&http, &url, &content),
                )
                .await??;
                whole += 1;
            }
            anyhow::Ok((whole, resumed))
        });
    }

    for (readers, slots) in [(5, 6), (1, 2)] {
        let line = format!("compose up --detach --wait --no-recreate --scale reader={readers} reader");
        checkout.run(&line).await?;
        let scaled = Instant::now();
        proxy.sees(slots).await.with_context(|| format!("{readers} readers"))?;
        ensure!(
            scaled.elapsed() < Duration::from_secs(10),
            "HAProxy took {:?}",
            scaled.elapsed()
        );
        // Every place has a process of its own, and none that has left is asked.
        let mut seen = std::collections::BTreeSet::new();
        eventually("every process answers", Duration::from_secs(20), async || {
            seen.insert(http.send(reqwest::Method::HEAD, &url).await?.slot()?);
            Ok((seen.len() == slots).then_some(()))
        })
        .await?;
    }

    stop.cancel();
    let (mut whole, mut resumed) = (0, 0);
    while let Some(client) = clients.join_next().await {
        let (files, times) = client?.context("a client that resumes")?;
        whole += files;
        resumed += times;
    }
    assert!(whole > CLIENTS, "the downloads did not overlap the scaling");
    Ok(format!(
        "{whole} downloads of {} bytes while scaling, {resumed} resumptions",
        content.len()
    ))
}
