//! Where and how to listen (docs/spec/environment.md 4.1 and 4.5).

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

use super::Mistakes;
use super::findings::Findings;
use super::variables::Variables;

const MOST_PROXIES: usize = 32;

/// The listener and what it believes.
#[derive(Clone, Debug)]
pub struct Http {
    /// `ARKVORY_HOST`: address to bind, not a name; default 127.0.0.1.
    pub host: IpAddr,
    /// `ARKVORY_PORT`: 1 to 65535; default 8080.
    pub port: u16,
    /// `ARKVORY_TRUSTED_PROXIES`: whose `X-Forwarded-*` are believed; up to 32 addresses or networks separated by
    /// commas; default none.
    pub trusted_proxies: Vec<IpNet>,
    /// `ARKVORY_ACCESS_LOG`: whether each request makes a line `http.access`; default true.
    pub access_log: bool,
    /// `ARKVORY_DRAIN_TIMEOUT_MS`: how long running responses may go on after the signal to stop; 0 to 3,600,000 ms;
    /// default 30 s.
    pub drain: Duration,
}

impl Http {
    pub(super) fn read(found: &Variables, findings: &mut Findings) -> Self {
        let Listen { host, port } = Listen::read(found, findings);
        Self {
            host,
            port,
            trusted_proxies: read_proxies(found, findings),
            access_log: findings.flag(&found.access_log, true),
            drain: Duration::from_millis(findings.number(&found.drain_timeout_ms, 30_000, 0..=3_600_000)),
        }
    }

    /// The address to bind.
    pub const fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    /// Whether keys may cross a network in the clear: reachable from outside, and no proxy is known that could do TLS
    /// (the warning `http.plaintext_exposed`).
    pub fn exposes_plaintext(&self) -> bool {
        !self.host.is_loopback() && self.trusted_proxies.is_empty()
    }
}

fn read_proxies(found: &Variables, findings: &mut Findings) -> Vec<IpNet> {
    if !found.trusted_proxies.is_set() {
        findings.at_default(&found.trusted_proxies, "");
        return Vec::new();
    }
    let allowed = "up to 32 addresses or networks, separated by commas";
    findings
        .given(&found.trusted_proxies, allowed, |text| {
            if text.is_empty() {
                return Some(Vec::new());
            }
            let proxies = text.split(',').map(|proxy| {
                let proxy = proxy.trim();
                proxy.parse().or_else(|_| proxy.parse::<IpAddr>().map(IpNet::from)).ok()
            });
            let proxies: Vec<IpNet> = proxies.collect::<Option<_>>()?;
            (proxies.len() <= MOST_PROXIES).then_some(proxies)
        })
        .unwrap_or_default()
}

/// Only the address, for `arkvory healthcheck`, which runs beside a process whose other settings it needn't know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// As [`Http::host`].
    pub host: IpAddr,
    /// As [`Http::port`].
    pub port: u16,
}

impl Listen {
    /// Reads the address from this process's environment.
    pub fn from_process() -> Result<Self, Mistakes> {
        Self::from_vars(std::env::vars_os())
    }

    /// Reads the address and ignores every other variable.
    pub fn from_vars(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Mistakes> {
        let mut findings = Findings::default();
        let mine = |name: &OsString| name == "ARKVORY_HOST" || name == "ARKVORY_PORT";
        let found = Variables::sort(vars.into_iter().filter(|(name, _)| mine(name)), &mut findings);
        let listen = Self::read(&found, &mut findings);
        findings.finish().map(|_| listen)
    }

    fn read(found: &Variables, findings: &mut Findings) -> Self {
        let host = if found.host.is_set() {
            findings.given(&found.host, "an IP address", |text| text.parse().ok())
        } else {
            findings.at_default(&found.host, Ipv4Addr::LOCALHOST);
            None
        };
        Self {
            host: host.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            port: findings.number(&found.port, 8080, 1..=u16::MAX),
        }
    }

    /// Where the process is reached from the same host: an unspecified address is replaced by loopback.
    pub const fn local(&self) -> SocketAddr {
        let host = match self.host {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            host => host,
        };
        SocketAddr::new(host, self.port)
    }
}
