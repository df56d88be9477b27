//! HAProxy, and what it knows of the processes behind it.

use std::time::Duration;

use anyhow::Context as _;

use crate::http::Http;
use crate::node::Node;
use crate::patience::eventually;

/// Where HAProxy shows its own numbers (haproxy/haproxy.cfg, "admin").
const ADMIN: u16 = 8404;

pub(crate) struct Proxy {
    url: String,
    admin: String,
    // Removed with it.
    _node: Option<Node>,
}

impl Proxy {
    pub(crate) fn new(node: Node) -> Self {
        Self {
            url: node.url(""),
            admin: node.url_at(ADMIN, ""),
            _node: Some(node),
        }
    }

    /// One that somebody else has started.
    pub(crate) fn at(url: String, admin: String) -> Self {
        Self {
            url,
            admin,
            _node: None,
        }
    }

    /// A URL as users write it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// How many processes it may ask for contents.
    pub(crate) async fn up(&self) -> anyhow::Result<usize> {
        let answer = Http::without_key()?.get(&format!("{}/stats;csv", self.admin)).await?;
        count_up(&String::from_utf8_lossy(&answer.body))
    }

    /// Waits until it is exactly so many.
    pub(crate) async fn sees(&self, count: usize) -> anyhow::Result<()> {
        let what = format!("HAProxy sees {count} processes");
        // HAProxy itself may be starting.
        eventually(&what, Duration::from_secs(10), async || {
            Ok(matches!(self.up().await, Ok(up) if up == count).then_some(()))
        })
        .await
    }
}

/// The table that HAProxy prints behind `/stats;csv`: a line with the names of the columns, then one for each server.
fn count_up(table: &str) -> anyhow::Result<usize> {
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let column = |name: &str| {
        head.iter()
            .position(|&field| field == name)
            .with_context(|| format!("no column {name}"))
    };
    let (backend, name, status) = (column("# pxname")?, column("svname")?, column("status")?);
    let is_up = |row: &Vec<&str>| {
        let field = |column: usize| row.get(column).copied().unwrap_or_default();
        field(backend) == "read" && field(name) != "BACKEND" && field(status).starts_with("UP")
    };
    Ok(lines.filter(is_up).count())
}
