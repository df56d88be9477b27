//! One container of a stack.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use testcontainers::bollard::query_parameters::{InspectContainerOptions, KillContainerOptionsBuilder};
use testcontainers::core::WaitFor;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage};

use crate::blueprint::Service;
use crate::docker::{Run, docker};
use crate::http::Http;
use crate::patience::eventually;

/// From the start of a process to its readiness: the schema, the claim, and a slot that may still be reserved for 10 s.
const START: Duration = Duration::from_secs(30);

/// A container that may stop and start again.
pub(crate) struct Node {
    service: String,
    container: ContainerAsync<GenericImage>,
    /// The network in which it is spoken to, where it has one, and its address there.
    network: Option<String>,
    address: String,
}

impl Node {
    /// Starts a container of a service. It can be found by the service's name in its networks, except in the first one:
    /// that it joins at its start, when no name can be given. See [`Node::take_name`].
    pub(crate) async fn start(run: &Run, name: &str, service: &Service, wait: WaitFor) -> anyhow::Result<Self> {
        let request = service.request(run, wait)?;
        let container = request.start().await.with_context(|| format!("{name} doesn't start"))?;
        let networks = service.networks();
        for network in networks.iter().skip(1) {
            run.join(container.id(), network, name).await?;
        }
        let network = networks.last().map(|network| run.full(network));
        let mut node = Self {
            service: name.to_owned(),
            container,
            network,
            address: String::new(),
        };
        node.find().await?;
        Ok(node)
    }

    /// Lets the container be found in its only network, too. It must be idle: its connections break.
    pub(crate) async fn take_name(&mut self, run: &Run, network: &str) -> anyhow::Result<()> {
        run.leave(self.id(), network).await?;
        run.join(self.id(), network, &self.service).await?;
        self.find().await
    }

    async fn find(&mut self) -> anyhow::Result<()> {
        let Some(network) = &self.network else { return Ok(()) };
        let inspected = docker()
            .await?
            .inspect_container(self.id(), None::<InspectContainerOptions>)
            .await?;
        let networks = inspected
            .network_settings
            .and_then(|settings| settings.networks)
            .unwrap_or_default();
        let address = networks.get(network).and_then(|endpoint| endpoint.ip_address.clone());
        self.address = address.unwrap_or_default();
        Ok(())
    }

    pub(crate) fn id(&self) -> &str {
        self.container.id()
    }

    /// A URL of this container itself. Containers are spoken to by their own addresses, which a Linux host reaches: a
    /// published port would put one more program with buffers between.
    pub(crate) fn url(&self, path: &str) -> String {
        self.url_at(8080, path)
    }

    pub(crate) fn url_at(&self, port: u16, path: &str) -> String {
        format!("http://{}:{port}{path}", self.address)
    }

    /// Waits until the process may serve (docs/spec/http-api.md 2.4), and fails at once when it ends instead.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        let http = Http::without_key()?;
        let url = self.url("/health/status");
        let ready = eventually("readiness", START, async || {
            if let Some(code) = self.container.exit_code().await? {
                bail!("it ended with {code}");
            }
            Ok(http
                .get(&url)
                .await
                .ok()
                .filter(|answer| answer.status == 200)
                .map(drop))
        });
        match ready.await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(format!("{}; its log:\n{}", self.service, self.text().await?))),
        }
    }

    /// Waits for the end of the process.
    pub(crate) async fn exit_code(&self, limit: Duration) -> anyhow::Result<i64> {
        let code = eventually("its end", limit, async || Ok(self.container.exit_code().await?)).await;
        match code {
            Ok(code) => Ok(code),
            Err(error) => Err(error.context(format!("{}; its log:\n{}", self.service, self.text().await?))),
        }
    }

    pub(crate) async fn is_running(&self) -> anyhow::Result<bool> {
        Ok(self.container.is_running().await?)
    }

    /// Ends the process without a word.
    pub(crate) async fn kill(&self) -> anyhow::Result<()> {
        let kill = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
        docker().await?.kill_container(self.id(), Some(kill)).await?;
        self.exit_code(Duration::from_secs(5)).await?;
        Ok(())
    }

    /// `docker stop` with the grace period of compose.yaml. Returns when the process has ended.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        Ok(self.container.stop_with_timeout(Some(45)).await?)
    }

    /// Starts a container again that had ended. It has the same settings, and perhaps another address.
    pub(crate) async fn start_again(&mut self) -> anyhow::Result<()> {
        self.container.start().await?;
        self.find().await
    }

    /// Both of its outputs.
    pub(crate) async fn text(&self) -> anyhow::Result<String> {
        let (out, err) = (
            self.container.stdout_to_vec().await?,
            self.container.stderr_to_vec().await?,
        );
        Ok(format!(
            "{}{}",
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&err)
        ))
    }

    /// The lines that the process has logged (docs/spec/environment.md 4.7).
    pub(crate) async fn log(&self) -> anyhow::Result<Vec<Value>> {
        let out = self.container.stdout_to_vec().await?;
        let lines = String::from_utf8_lossy(&out).into_owned();
        let parse =
            |line: &str| serde_json::from_str(line).with_context(|| format!("a log line that isn't JSON: {line}"));
        lines.lines().map(parse).collect()
    }

    /// The last line with a code.
    pub(crate) async fn logged(&self, code: &str) -> anyhow::Result<Option<Value>> {
        Ok(self.log().await?.into_iter().rfind(|line| line["code"] == code))
    }

    /// What the process says of itself: docs/spec/health.md 8.1.
    pub(crate) async fn readiness(&self, http: &Http) -> anyhow::Result<Value> {
        http.get(&self.url("/health/ready")).await?.json()
    }

    /// One of its metrics that has no labels.
    pub(crate) async fn metric(&self, http: &Http, name: &str) -> anyhow::Result<f64> {
        let text = http.get(&self.url("/health/metrics")).await?.body;
        let text = String::from_utf8_lossy(&text);
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.with_context(|| format!("no metric {name} in:\n{text}"))
    }

    /// A file from a container, also after its end.
    pub(crate) async fn file(&self, path: &str) -> anyhow::Result<String> {
        let bytes = self
            .container
            .copy_file_from(path, Vec::new())
            .await
            .with_context(|| path.to_owned())?;
        Ok(String::from_utf8(bytes)?)
    }
}
