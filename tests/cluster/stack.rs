//! A whole stack: database, writer, readers and HAProxy, as compose.yaml has them, with a policy of the test's own.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::future::{join_all, try_join_all};
use testcontainers::core::WaitFor;
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard};

use crate::blueprint::{Blueprint, Service};
use crate::docker::{LABEL, Run, need_image};
use crate::http::Http;
use crate::node::Node;
use crate::programs::output;
use crate::proxy::Proxy;

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;
/// For a command that makes files or tables, and ends.
const ONE_SHOT: Duration = Duration::from_mins(1);

/// One stack at a time, also when tests run as threads of one process (under nextest they are processes; see
/// .config/nextest.toml).
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// The rates that all processes share (docs/spec/environment.md 4.2).
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) slots: u8,
    pub(crate) bytes_per_second: u64,
}

impl Policy {
    /// Small enough to be reached on any machine, large enough not to wait for.
    pub(crate) const USUAL: Self = Self {
        slots: 4,
        bytes_per_second: 64 * MIB,
    };
    /// Not to be in the way.
    pub(crate) const FAST: Self = Self {
        slots: 4,
        bytes_per_second: 1024 * MIB,
    };

    /// What one process may send in a second.
    pub(crate) fn share(self) -> u64 {
        self.bytes_per_second / u64::from(self.slots)
    }

    /// What one process may send at once after a pause (docs/spec/bandwidth.md 6.2.2).
    pub(crate) fn burst(self) -> u64 {
        (self.share() / 10).min(MIB)
    }
}

/// How a reader comes to its slot.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    Auto,
    Fixed(u8),
}

/// An installation without a process: files of secrets, a database with its schema, empty volumes.
pub(crate) struct Ground {
    run: Run,
    blueprint: Blueprint,
    pub(crate) http: Http,
    pub(crate) policy: Policy,
    _database: Node,
    _alone: MutexGuard<'static, ()>,
}

impl Ground {
    /// `init`, PostgreSQL and `migrate`, in the order of compose.yaml.
    pub(crate) async fn lay(policy: Policy) -> anyhow::Result<Self> {
        let alone = ONE_AT_A_TIME.lock().await;
        let run = Run::begin().await?;
        let blueprint = Blueprint::read().await?;
        for service in ["writer", "postgres", "haproxy"] {
            need_image(&blueprint.service(service)?.image).await?;
        }
        blueprint.lay_out(&run).await?;

        let init = one_shot(&run, &blueprint, "init").await?;
        let key = init.file("/secrets/owner/owner.key").await?;
        let postgres = blueprint.service("postgres")?;
        let mut database = Node::start(&run, "postgres", &postgres, WaitFor::healthcheck()).await?;
        database.take_name(&run, "data").await?;
        one_shot(&run, &blueprint, "migrate").await?;
        let http = Http::with_key(key.trim())?;
        Ok(Self {
            run,
            blueprint,
            http,
            policy,
            _database: database,
            _alone: alone,
        })
    }

    /// The writer's service with this installation's policy.
    pub(crate) fn writer(&self) -> anyhow::Result<Service> {
        self.process("writer")
    }

    /// The readers' service with this installation's policy.
    pub(crate) fn reader(&self, slot: Slot) -> anyhow::Result<Service> {
        let mut service = self.process("reader")?;
        if let Slot::Fixed(number) = slot {
            service.set("ARKVORY_GATEWAY_SLOT", Some(&number.to_string()));
        }
        Ok(service)
    }

    fn process(&self, name: &str) -> anyhow::Result<Service> {
        let mut service = self.blueprint.service(name)?;
        let Policy {
            slots,
            bytes_per_second,
        } = self.policy;
        service.set("ARKVORY_GATEWAY_SLOTS", Some(&slots.to_string()));
        service.set(
            "ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND",
            Some(&bytes_per_second.to_string()),
        );
        Ok(service)
    }

    /// The names of what is in the data directory.
    pub(crate) async fn files(&self) -> anyhow::Result<String> {
        let volume = format!("{}:/data:ro", self.run.full("data"));
        let mut list = Command::new("docker");
        list.args([
            "run",
            "--rm",
            "--network",
            "none",
            "--label",
            &format!("{LABEL}={}", self.run.name()),
        ]);
        list.args([
            "--entrypoint",
            "ls",
            "--volume",
            &volume,
            &self.writer()?.image,
            "-A",
            "/data",
        ]);
        output(&mut list).await
    }

    /// Starts a process without waiting for anything.
    pub(crate) async fn start(&self, name: &str, service: &Service) -> anyhow::Result<Node> {
        Node::start(&self.run, name, service, WaitFor::Nothing).await
    }
}

/// Runs a command that must succeed.
async fn one_shot(run: &Run, blueprint: &Blueprint, name: &str) -> anyhow::Result<Node> {
    let node = Node::start(run, name, &blueprint.service(name)?, WaitFor::Nothing).await?;
    let code = node.exit_code(ONE_SHOT).await?;
    ensure!(code == 0, "{name} ended with {code}: {}", node.text().await?);
    Ok(node)
}

/// Everything, running.
pub(crate) struct Stack {
    // Dropped first: it takes every container away at once.
    pub(crate) ground: Ground,
    pub(crate) writer: Node,
    pub(crate) readers: Vec<Node>,
    pub(crate) proxy: Proxy,
}

impl Stack {
    /// Starts it and waits until HAProxy sees all of its processes.
    pub(crate) async fn start(policy: Policy, readers: &[Slot]) -> anyhow::Result<Self> {
        let ground = Ground::lay(policy).await?;
        let writer = ground.start("writer", &ground.writer()?).await?;
        writer.ready().await?;
        let start_reader = async |slot| {
            let reader = ground.start("reader", &ground.reader(slot)?).await?;
            reader.ready().await?;
            anyhow::Ok(reader)
        };
        let started = join_all(readers.iter().map(|&slot| start_reader(slot)));
        let haproxy = ground.blueprint.service("haproxy")?;
        let (readers, proxy) = tokio::join!(started, ground.start("haproxy", &haproxy));
        let readers = readers.into_iter().collect::<Result<Vec<_>, _>>()?;
        let proxy = Proxy::new(proxy?);
        proxy.sees(1 + readers.len()).await?;
        Ok(Self {
            ground,
            writer,
            readers,
            proxy,
        })
    }

    pub(crate) fn http(&self) -> &Http {
        &self.ground.http
    }

    /// Writer and readers.
    pub(crate) fn processes(&self) -> Vec<&Node> {
        std::iter::once(&self.writer).chain(&self.readers).collect()
    }

    /// The processes with the slots that they have, in the order of the slots.
    pub(crate) async fn by_slot(&self) -> anyhow::Result<Vec<(u8, &Node)>> {
        let http = self.http();
        let asked = self.processes().into_iter().map(|node| async move {
            let answer = http.get(&node.url("/health/status")).await?;
            anyhow::Ok((answer.slot()?, node))
        });
        let mut found = try_join_all(asked).await?;
        found.sort_by_key(|(slot, _)| *slot);
        Ok(found)
    }

    /// Publishes a file through HAProxy.
    pub(crate) async fn publish(&self, path: &str, content: &bytes::Bytes) -> anyhow::Result<()> {
        let answer = self
            .http()
            .put(&self.proxy.url(&crate::http::raw(path)), content.clone())
            .await?;
        ensure!(
            answer.status == 201,
            "{path} was not published: {} {:?}",
            answer.status,
            answer.body
        );
        answer.slot().map(drop).context("an answer that no process gave")
    }
}
