//! HAProxy, and what it knows of the processes behind it.

use std::time::Duration;

use anyhow::Context as _;

use crate::http::Http;
use crate::node::Node;
use crate::patience::eventually;

/// Where HAProxy shows its own numbers (haproxy/haproxy.cfg, "admin").
const ADMIN: u16 = 8404;

pub(crate) struct Proxy {
    node: Node,
}

/// One line of its statistics.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) status: String,
    /// Requests that it works on.
    pub(crate) sessions: u32,
}

impl Server {
    pub(crate) fn is_up(&self) -> bool {
        self.status.starts_with("UP")
    }
}

impl Proxy {
    pub(crate) fn new(node: Node) -> Self {
        Self { node }
    }

    /// A URL as users write it.
    pub(crate) fn url(&self, path: &str) -> String {
        self.node.url(path)
    }

    /// The servers of the backend for reads that have an address.
    pub(crate) async fn servers(&self) -> anyhow::Result<Vec<Server>> {
        let answer = Http::without_key()?.get(&self.node.url_at(ADMIN, "/stats;csv")).await?;
        read_servers(&String::from_utf8_lossy(&answer.body))
    }

    /// Waits until exactly so many processes may be asked for contents.
    pub(crate) async fn sees(&self, count: usize) -> anyhow::Result<()> {
        let limit = Duration::from_secs(10);
        eventually(&format!("HAProxy sees {count} processes"), limit, async || {
            // HAProxy itself may be starting.
            let Ok(servers) = self.servers().await else { return Ok(None) };
            Ok((servers.iter().filter(|server| server.is_up()).count() == count).then_some(()))
        })
        .await
    }
}

/// The table that HAProxy prints behind `/stats;csv`.
pub(crate) fn read_servers(table: &str) -> anyhow::Result<Vec<Server>> {
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().trim_start_matches("# ").split(',').collect();
    let column = |name: &str| head.iter().position(|&field| field == name).with_context(|| format!("no column {name}"));
    let (backend, name, status, sessions) = (column("pxname")?, column("svname")?, column("status")?, column("scur")?);
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let ours = rows.filter(|row| row.get(backend) == Some(&"read") && row.get(name) != Some(&"BACKEND"));
    let servers = ours.map(|row| {
        let field = |column: usize| row.get(column).copied().unwrap_or_default();
        let sessions = field(sessions).parse().unwrap_or_default();
        Server { name: field(name).to_owned(), status: field(status).to_owned(), sessions }
    });
    // A place for a reader that nobody has taken is in maintenance.
    Ok(servers.filter(|server| !server.status.starts_with("MAINT")).collect())
}
