//! compose.yaml as these tests use it: what it says of a service becomes the request for a container, so that what the
//! tests prove holds for what users run.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;
use testcontainers::core::{AccessMode, Healthcheck, Mount, WaitFor};
use testcontainers::{ContainerRequest, GenericImage, ImageExt as _};
use tokio::process::Command;

use crate::docker::{LABEL, Run};
use crate::programs;

/// The whole file, with every variable filled in and every short form written out.
#[derive(Deserialize)]
pub(crate) struct Blueprint {
    services: HashMap<String, Service>,
    networks: HashMap<String, Network>,
    volumes: HashMap<String, Value>,
}

#[derive(Deserialize)]
struct Network {
    #[serde(default)]
    internal: bool,
}

/// What compose.yaml says of a service.
#[derive(Clone, Deserialize)]
pub(crate) struct Service {
    pub(crate) image: String,
    command: Option<Vec<String>>,
    #[serde(default)]
    environment: BTreeMap<String, Option<String>>,
    user: Option<String>,
    #[serde(default)]
    cap_add: Vec<String>,
    #[serde(default)]
    cap_drop: Vec<String>,
    #[serde(default)]
    security_opt: Vec<String>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    tmpfs: Vec<String>,
    mem_limit: Option<String>,
    pids_limit: Option<i64>,
    shm_size: Option<String>,
    network_mode: Option<String>,
    #[serde(default)]
    networks: BTreeMap<String, Value>,
    #[serde(default)]
    volumes: Vec<Volume>,
    healthcheck: Option<Check>,
}

#[derive(Clone, Deserialize)]
struct Volume {
    #[serde(rename = "type")]
    kind: String,
    source: String,
    target: String,
    #[serde(default)]
    read_only: bool,
}

#[derive(Clone, Deserialize)]
struct Check {
    #[serde(default)]
    test: Vec<String>,
}

impl Blueprint {
    /// The file of this repository, with none of the settings of whoever runs the tests but the image.
    pub(crate) async fn read() -> anyhow::Result<Self> {
        let mut compose = Command::new(programs::root().join("deploy/compose"));
        compose
            .args(["--env-file", "/dev/null", "config", "--format", "json"])
            .stdin(Stdio::null());
        let text = programs::output(programs::without_settings(&mut compose)).await?;
        serde_json::from_str(&text).context("the answer of `deploy/compose config` isn't what was expected")
    }

    /// A service by its name.
    pub(crate) fn service(&self, name: &str) -> anyhow::Result<Service> {
        self.services
            .get(name)
            .cloned()
            .with_context(|| format!("compose.yaml has no service {name}"))
    }

    /// Makes the networks and volumes.
    pub(crate) async fn lay_out(&self, run: &Run) -> anyhow::Result<()> {
        for (name, network) in &self.networks {
            run.create_network(name, network.internal).await?;
        }
        for name in self.volumes.keys() {
            run.create_volume(name).await?;
        }
        Ok(())
    }
}

impl Service {
    /// Sets a variable of the environment, or removes it.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) {
        self.environment.insert(name.to_owned(), value.map(str::to_owned));
    }

    /// The networks that it is in.
    pub(crate) fn networks(&self) -> Vec<&str> {
        self.networks.keys().map(String::as_str).collect()
    }

    /// The request for a container of this service. Ports aren't published: the tests speak to its own address. Of its
    /// networks it is in the first one.
    pub(crate) fn request(&self, run: &Run, wait: WaitFor) -> anyhow::Result<ContainerRequest<GenericImage>> {
        let (name, tag) = self.image.rsplit_once(':').context("an image without a tag")?;
        let image = GenericImage::new(name, tag).with_wait_for(wait);
        let network = match (&self.network_mode, self.networks.keys().next()) {
            (Some(mode), _) => mode.clone(),
            (None, Some(first)) => run.full(first),
            (None, None) => "none".to_owned(),
        };
        let mut request = image
            .with_network(network)
            .with_label(LABEL, run.name())
            .with_readonly_rootfs(self.read_only)
            .with_host_config_modifier({
                let service = self.clone();
                move |host| {
                    let size = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
                    host.memory = size(&service.mem_limit);
                    host.shm_size = size(&service.shm_size);
                    host.pids_limit = service.pids_limit;
                    host.publish_all_ports = Some(false);
                    let split = |mount: &String| {
                        let (path, options) = mount.split_once(':').unwrap_or((mount, ""));
                        (path.to_owned(), options.to_owned())
                    };
                    host.tmpfs = Some(service.tmpfs.iter().map(split).collect());
                }
            });
        if let Some(command) = &self.command {
            request = request.with_cmd(command.iter().map(|word| literal(word)));
        }
        if let Some(user) = &self.user {
            request = request.with_user(user);
        }
        for (name, value) in &self.environment {
            if let Some(value) = value {
                request = request.with_env_var(name, literal(value));
            }
        }
        for capability in &self.cap_add {
            request = request.with_cap_add(capability);
        }
        for capability in &self.cap_drop {
            request = request.with_cap_drop(capability);
        }
        for option in &self.security_opt {
            request = request.with_security_opt(option);
        }
        for Volume {
            kind,
            source,
            target,
            read_only,
        } in &self.volumes
        {
            let mount = match kind.as_str() {
                "volume" => Mount::volume_mount(run.full(source), target),
                _ => Mount::bind_mount(source, target),
            };
            let access = if *read_only {
                AccessMode::ReadOnly
            } else {
                AccessMode::ReadWrite
            };
            request = request.with_mount(mount.with_access_mode(access));
        }
        if let Some([kind, words @ ..]) = self.healthcheck.as_ref().map(|check| check.test.as_slice())
            && kind == "CMD"
        {
            // As the service has it, only more often: nobody waits for a container that is ready.
            let check = Healthcheck::cmd(words.iter().map(|word| literal(word)));
            request = request.with_health_check(check.with_interval(Duration::from_millis(300)).with_retries(200));
        }
        Ok(request)
    }
}

/// `config` prints a file that can be read again, in which a dollar is written twice.
fn literal(text: &str) -> String {
    text.replace("$$", "$")
}
