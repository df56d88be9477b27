//! The real binary as processes of the operating system.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::Instant;

use super::eventually::eventually;
use super::site::{Site, key};
use super::talk::Ask;

/// How long a start, or the refusal of one, may take: a left-over reservation is waited for up to 15 s
/// (docs/spec/leases.md 5.2).
const START: Duration = Duration::from_secs(30);
/// How long an ordered stop may take.
const STOP: Duration = Duration::from_secs(40);
/// Tries for a port that nobody takes before the process binds it.
const PORTS: usize = 5;

/// Which slot a process says it has, in the header of every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Standalone.
    None,
    /// This one.
    Is(u8),
    /// One that it chose.
    Chosen,
}

/// A process to be started.
///
/// It borrows its installation, which must outlive it.
pub(crate) struct Launch<'a> {
    site: PhantomData<&'a Site>,
    variables: BTreeMap<String, String>,
    allowed: Vec<&'static str>,
    slot: Slot,
}

impl<'a> Launch<'a> {
    pub(crate) fn new(site: &'a Site) -> Self {
        let launch = Self {
            site: PhantomData,
            variables: BTreeMap::new(),
            allowed: Vec::new(),
            slot: Slot::None,
        };
        launch
            .set("ARKVORY_DATABASE_URL", &site.database.url)
            .set("ARKVORY_DATA_DIR", site.data().to_str().unwrap())
            .set("ARKVORY_KEYS_FILE", site.keys_file().to_str().unwrap())
            .set("ARKVORY_DATABASE_POOL_SIZE", "4")
            // The host's disk is not what these tests are about.
            .set("ARKVORY_STORAGE_RESERVE_BYTES", "0")
    }

    /// The gateway profile with the numbers of docs/spec/cases.md.
    pub(crate) fn gateway(mut self, slot: &str) -> Self {
        self.slot = slot.parse().map_or(Slot::Chosen, Slot::Is);
        let total = (3 * 65536).to_string();
        self.set("ARKVORY_GATEWAY_SLOTS", "3")
            .set("ARKVORY_GATEWAY_SLOT", slot)
            .set("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND", &total)
            .set("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL", &total)
    }

    /// The gateway profile with a rate that is in nobody's way.
    pub(crate) fn fast(self) -> Self {
        self.set("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND", "1099511627776")
            .unset("ARKVORY_SHARED_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL")
            .unset("ARKVORY_DOWNLOAD_BYTES_PER_SECOND")
            .unset("ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL")
    }

    /// Sets a variable of the environment.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Takes a variable out of the environment.
    pub(crate) fn unset(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// Expects lines of this code at WARN or ERROR.
    pub(crate) fn allow(mut self, code: &'static str) -> Self {
        self.allowed.push(code);
        self
    }

    /// Starts the process and waits until it is ready.
    pub(crate) async fn start(self) -> Process {
        match self.outcome().await {
            Ok(process) => process,
            Err(refusal) => panic!("the process did not start: {refusal:#?}"),
        }
    }

    /// Starts the process and waits until it gives up.
    pub(crate) async fn refused(self) -> Refusal {
        match self.outcome().await {
            Ok(_) => panic!("the process started, but should have refused to"),
            Err(refusal) => refusal,
        }
    }

    /// Starts the process and waits until it is ready or has given up.
    pub(crate) async fn outcome(self) -> Result<Process, Refusal> {
        for _ in 1..PORTS {
            let port = free_port();
            let process = self.spawn(port);
            match process.ready().await {
                // Somebody took the port between our asking for it and the process's binding it.
                Err(_) if !self.variables.contains_key("ARKVORY_PORT") && !is_free(port) => {}
                outcome => return outcome,
            }
        }
        panic!("no port stays free");
    }

    /// Starts the process and waits for nothing.
    pub(crate) fn spawn(&self, port: u16) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_arkvory"))
            .env_clear()
            .env("ARKVORY_PORT", port.to_string())
            .envs(&self.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let lines = log.clone();
        let logging = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let complaining = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Process {
            child,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            slot: self.slot,
            allowed: self.allowed.clone(),
            log,
            threads: Some((logging, complaining)),
            http: reqwest::Client::builder()
                .no_proxy()
                .connect_timeout(Duration::from_secs(5))
                .read_timeout(Duration::from_secs(20))
                .build()
                .unwrap(),
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A start that failed.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The exit code.
    pub(crate) code: Option<i32>,
    /// The line `startup.failed`.
    pub(crate) line: Value,
    /// Everything on standard error.
    pub(crate) stderr: String,
    /// All lines of the log.
    pub(crate) log: Vec<Value>,
}

impl Refusal {
    /// What the line says.
    pub(crate) fn reason(&self) -> &str {
        self.line["reason"].as_str().unwrap_or_default()
    }

    /// Checks what all refusals have in common, and that this one is of the `kind` and names all of `names`
    /// (docs/spec/environment.md 4.0).
    pub(crate) fn expect(&self, kind: &str, names: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:#?}");
        assert_eq!(self.line["detail"], kind, "{self:#?}");
        for name in names {
            assert!(self.reason().contains(name), "{name} is not in the reason: {self:#?}");
            assert!(self.stderr.contains(name), "{name} is not on standard error: {self:#?}");
        }
        for secret in key::ALL {
            assert!(!self.stderr.contains(secret) && !self.line.to_string().contains(secret));
        }
        assert!(!self.stderr.contains("postgres://") && !self.line.to_string().contains("postgres://"));
    }
}

/// A running process. Killed when it goes out of scope; then the test fails if the log has lines at WARN or ERROR that
/// the test did not expect.
pub(crate) struct Process {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its slot.
    pub(crate) slot: Slot,
    allowed: Vec<&'static str>,
    log: Arc<Mutex<Vec<Value>>>,
    threads: Option<(JoinHandle<()>, JoinHandle<String>)>,
    /// Keeps connections.
    pub(crate) http: reqwest::Client,
}

impl Process {
    /// Waits until the process serves, or has given up.
    pub(crate) async fn ready(mut self) -> Result<Self, Refusal> {
        let end = Instant::now() + START;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Err(self.into_refusal(status));
            }
            // The log first: somebody else could answer on this port.
            if self.logged("api.listening") > 0 && self.get("/health/status").answer().await.status == 200 {
                return Ok(self);
            }
            assert!(
                Instant::now() < end,
                "neither ready nor given up within {START:?}: {:#?}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn into_refusal(mut self, status: ExitStatus) -> Refusal {
        let stderr = self.join();
        let log = self.log();
        let lines: Vec<_> = log
            .iter()
            .filter(|line| line["code"] == "startup.failed")
            .cloned()
            .collect();
        assert_eq!(lines.len(), 1, "one line startup.failed: {log:#?}\n{stderr}");
        self.allowed.push("startup.failed");
        Refusal {
            code: status.code(),
            line: lines[0].clone(),
            stderr,
            log,
        }
    }

    /// A request to this process; the path begins with `/`.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask {
        let url = format!("http://{}{path}", self.address);
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        Ask::new(self.http.request(method, url), self.slot)
    }

    /// A GET.
    pub(crate) fn get(&self, path: &str) -> Ask {
        self.ask("GET", path)
    }

    /// The process's number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// All lines of the log so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many lines have this code.
    pub(crate) fn logged(&self, code: &str) -> usize {
        self.log().iter().filter(|line| line["code"] == code).count()
    }

    /// Waits for a line of this code.
    pub(crate) async fn logs(&self, code: &str, within: Duration) {
        eventually(within, code, async || self.logged(code) > 0).await;
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the process and tells its exit code.
    pub(crate) async fn ended(&mut self, within: Duration) -> Option<i32> {
        eventually(within, "the process ends", async || {
            self.child.try_wait().unwrap().is_some()
        })
        .await;
        let status = self.child.wait().unwrap();
        self.join();
        status.code()
    }

    /// Ends the process in order and tells its exit code.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.ended(STOP).await
    }

    /// Ends the process at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.join();
    }

    /// Waits for the ends of both pipes and returns what was on standard error.
    fn join(&mut self) -> String {
        let Some((logging, complaining)) = self.threads.take() else {
            return String::new();
        };
        logging.join().unwrap();
        complaining.join().unwrap()
    }

    /// How many descriptors of the process lead into `folder`.
    pub(crate) fn descriptors_in(&self, folder: &std::path::Path) -> usize {
        let folder = folder.canonicalize().unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        targets
            .filter(|target| target.starts_with(&folder) && *target != folder)
            .count()
    }

    /// How many descriptors the process has.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Lines that need an operator's eye and were not expected; lines that are not JSON objects with the fields of
    /// docs/spec/environment.md 4.7; lines with a secret.
    fn objections(&self) -> Vec<Value> {
        let objectionable = |line: &Value| {
            let level = line["level"].as_str().unwrap_or_default().to_lowercase();
            let code = line["code"].as_str().unwrap_or_default();
            let text = line.to_string();
            let fields = [
                "timestamp",
                "level",
                "service",
                "version",
                "pid",
                "hostname",
                "component",
                "code",
            ];
            !fields.iter().all(|field| line.get(field).is_some())
                || key::ALL.iter().any(|secret| text.contains(secret))
                || (!matches!(&*level, "info" | "debug") && !self.allowed.contains(&code))
        };
        self.log().into_iter().filter(objectionable).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("log of {}: {:#?}", self.address, self.log());
        } else {
            let objections = self.objections();
            assert!(objections.is_empty(), "unexpected lines in the log: {objections:#?}");
        }
    }
}
