//! What the tests need of Docker beyond one container: a name for everything that a stack makes, networks in which
//! several containers share a name, volumes, and a sweep after which nothing is left.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error;
use testcontainers::bollard::exec::{CreateExecOptions, StartExecResults};
use testcontainers::bollard::models::{
    EndpointSettings, NetworkConnectRequest, NetworkCreateRequest, NetworkDisconnectRequest, VolumeCreateRequest,
};
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveVolumeOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;

use crate::programs;

/// The label of everything that these tests make; its value is the name of a [`Run`].
pub(crate) const LABEL: &str = "org.arkvory.test";
/// The label that Compose gives; its value is the name of the project, for which we take the name of a run.
pub(crate) const COMPOSE_LABEL: &str = "com.docker.compose.project";
const PREFIX: &str = "arkvory-test";

/// Everything in Docker that belongs to one stack. Dropping it removes it all: containers, networks and volumes, also
/// those that Compose made under the project name of the run.
pub(crate) struct Run {
    name: String,
}

impl Run {
    /// A name that no other run has, after whatever dead runs left behind has been removed.
    pub(crate) async fn begin() -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let docker = docker().await?;
        for name in runs(&docker).await? {
            if Owner::of(&name).is_some_and(|owner| owner.is_dead()) {
                sweep(&docker, &name).await?;
            }
        }
        let owner = Owner::this()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let Owner {
            namespace,
            process,
            started,
        } = owner;
        Ok(Self {
            name: format!("{PREFIX}-{namespace}-{process}-{started}-{number}"),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The full name of a network or volume that compose.yaml calls `short`.
    pub(crate) fn full(&self, short: &str) -> String {
        format!("{}_{short}", self.name)
    }

    pub(crate) async fn create_network(&self, short: &str, internal: bool) -> anyhow::Result<()> {
        let network = NetworkCreateRequest {
            name: self.full(short),
            internal: Some(internal),
            labels: Some(self.labels()),
            ..NetworkCreateRequest::default()
        };
        docker()
            .await?
            .create_network(network)
            .await
            .with_context(|| format!("network {short}"))?;
        Ok(())
    }

    pub(crate) async fn create_volume(&self, short: &str) -> anyhow::Result<()> {
        let volume = VolumeCreateRequest {
            name: Some(self.full(short)),
            labels: Some(self.labels()),
            ..VolumeCreateRequest::default()
        };
        docker()
            .await?
            .create_volume(volume)
            .await
            .with_context(|| format!("volume {short}"))?;
        Ok(())
    }

    /// Lets a container be found in a network by the name of its service, which it may share with others.
    pub(crate) async fn join(&self, container: &str, network: &str, service: &str) -> anyhow::Result<()> {
        let endpoint = EndpointSettings {
            aliases: Some(vec![service.to_owned()]),
            ..EndpointSettings::default()
        };
        let connect = NetworkConnectRequest {
            container: container.to_owned(),
            endpoint_config: Some(endpoint),
        };
        let joined = docker().await?.connect_network(&self.full(network), connect).await;
        joined.with_context(|| format!("{service} in network {network}"))
    }

    pub(crate) async fn leave(&self, container: &str, network: &str) -> anyhow::Result<()> {
        let disconnect = NetworkDisconnectRequest {
            container: container.to_owned(),
            force: Some(true),
        };
        Ok(docker()
            .await?
            .disconnect_network(&self.full(network), disconnect)
            .await?)
    }

    fn labels(&self) -> HashMap<String, String> {
        HashMap::from([(LABEL.to_owned(), self.name.clone())])
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Run {
    /// Removes everything. On a thread of its own, because a test may be unwinding, inside a runtime that is about to end.
    pub(crate) fn remove(&self) {
        let name = self.name.clone();
        let swept = std::thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { sweep(&Docker::connect_with_defaults()?, &name).await })
        });
        match swept.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("{} was not removed: {error:#}", self.name),
            Err(_) => eprintln!("{} was not removed", self.name),
        }
    }
}

/// The client that testcontainers uses too.
pub(crate) async fn docker() -> anyhow::Result<Docker> {
    docker_client_instance()
        .await
        .context("Docker can't be reached; these tests need it")
}

/// The user of our processes (docs/spec/containers.md 11.3), and the one that might do more.
pub(crate) const USERS: [&str; 2] = ["10001:10001", "0:0"];

/// Runs a command in a container as one of its users. All its output, and whether it succeeded.
pub(crate) async fn run_as(user: &str, container: &str, command: &[&str]) -> anyhow::Result<(bool, String)> {
    let docker = docker().await?;
    let exec = CreateExecOptions {
        cmd: Some(command.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()),
        user: Some(user.to_owned()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..CreateExecOptions::default()
    };
    let id = docker.create_exec(container, exec).await?.id;
    let mut text = String::new();
    if let StartExecResults::Attached { mut output, .. } = docker.start_exec(&id, None).await? {
        while let Some(chunk) = output.next().await {
            text.push_str(&chunk?.to_string());
        }
    }
    let code = docker.inspect_exec(&id).await?.exit_code;
    Ok((code == Some(0), text))
}

/// What is left of a run, or of a project of Compose: kind and name of each thing.
pub(crate) async fn remains(docker: &Docker, run: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for label in [LABEL, COMPOSE_LABEL] {
        let filters = HashMap::from([("label", vec![format!("{label}={run}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let containers = docker.list_containers(Some(options)).await?;
        found.extend(
            containers
                .into_iter()
                .filter_map(|container| container.id)
                .map(|id| format!("container {id}")),
        );
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        let networks = docker.list_networks(Some(options)).await?;
        found.extend(
            networks
                .into_iter()
                .filter_map(|network| network.id)
                .map(|id| format!("network {id}")),
        );
        let options = ListVolumesOptionsBuilder::new().filters(&filters).build();
        let volumes = docker.list_volumes(Some(options)).await?.volumes.unwrap_or_default();
        found.extend(volumes.into_iter().map(|volume| format!("volume {}", volume.name)));
    }
    Ok(found)
}

/// Removes all that belongs to a run.
async fn sweep(docker: &Docker, run: &str) -> anyhow::Result<()> {
    let found = remains(docker, run).await?;
    // Containers first: they hold the others.
    for kind in ["container ", "network ", "volume "] {
        let names = found.iter().filter_map(|thing| thing.strip_prefix(kind));
        try_join_all(names.map(|name| remove(docker, kind, name))).await?;
    }
    Ok(())
}

async fn remove(docker: &Docker, kind: &str, name: &str) -> anyhow::Result<()> {
    let removed = match kind {
        "container " => {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            docker.remove_container(name, Some(options)).await
        }
        "network " => docker.remove_network(name).await,
        _ => {
            docker
                .remove_volume(name, Some(RemoveVolumeOptionsBuilder::new().force(true).build()))
                .await
        }
    };
    match removed {
        // Somebody was faster.
        Ok(()) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{kind}{name}")),
    }
}

/// The names of all runs that have something in Docker.
async fn runs(docker: &Docker) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut note = |labels: Option<HashMap<String, String>>| {
        let labels = labels.unwrap_or_default();
        names.extend(
            [LABEL, COMPOSE_LABEL]
                .iter()
                .filter_map(|&label| labels.get(label).cloned()),
        );
    };
    let everything = ListContainersOptionsBuilder::new().all(true).build();
    for container in docker.list_containers(Some(everything)).await? {
        note(container.labels);
    }
    for network in docker
        .list_networks(Some(ListNetworksOptionsBuilder::new().build()))
        .await?
    {
        note(network.labels);
    }
    let volumes = docker
        .list_volumes(Some(ListVolumesOptionsBuilder::new().build()))
        .await?
        .volumes;
    for volume in volumes.unwrap_or_default() {
        note(Some(volume.labels));
    }
    names.retain(|name| name.starts_with(PREFIX));
    names.sort();
    names.dedup();
    Ok(names)
}

/// The process that began a run.
#[derive(PartialEq)]
struct Owner {
    /// Process numbers mean nothing in another namespace.
    namespace: u64,
    process: u32,
    /// Process numbers are used again.
    started: u64,
}

impl Owner {
    fn this() -> anyhow::Result<Self> {
        let process = std::process::id();
        let started = started(process).context("this process has no entry in /proc")?;
        Ok(Self {
            namespace: namespace()?,
            process,
            started,
        })
    }

    fn of(run: &str) -> Option<Self> {
        let mut parts = run.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        let mut next = || parts.next()?.parse().ok();
        Some(Self {
            namespace: next()?,
            process: u32::try_from(next()?).ok()?,
            started: next()?,
        })
    }

    /// Whether it has certainly ended. Of a process in another namespace we know nothing.
    fn is_dead(&self) -> bool {
        namespace().is_ok_and(|ours| ours == self.namespace) && started(self.process) != Some(self.started)
    }
}

fn namespace() -> anyhow::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// When a process began, in ticks since the machine did.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    // The second field is the program's name and may hold anything; the time is the 20th after it.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

/// Fails with a text that says what to do when an image isn't there.
pub(crate) async fn need_image(image: &str) -> anyhow::Result<()> {
    let hint = if image.starts_with("arkvory") {
        "deploy/compose build"
    } else {
        "deploy/base-images"
    };
    let found = docker().await?.inspect_image(image).await;
    found.with_context(|| {
        format!(
            "the image {image} is missing: run {hint} in {}",
            programs::root().display()
        )
    })?;
    Ok(())
}
