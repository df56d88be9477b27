//! A running process, and the order in which it stops (docs/spec/health.md 8.3).

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::artifact::Publish;
use crate::catalog::Catalog;
use crate::http::{self, App};
use crate::lease::{Ended, Lease};
use crate::supervise::{AtStop, Drained, Latch, OnEnd, Stop, TaskKind, Tasks, exit_after};
use crate::telemetry::metrics::Metrics;

/// How long the listener stays open after the signal, so that a balancer sees `draining` before it is refused.
const SEEN_BY_BALANCERS: Duration = Duration::from_secs(3);
/// How long tasks and sessions may take to end when nothing is served any more.
const CLOSING: Duration = Duration::from_secs(5);
/// Pause between two tries to clean up behind failed publications.
const CLEAN_UP_INTERVAL: Duration = Duration::from_secs(30);
/// What the hard limit adds to the drain window.
const HARD_LIMIT: Duration = Duration::from_mins(2);

/// Ownership and lease are kept until everything else has ended, so that what drains still flows.
pub(super) const OWNERSHIP: TaskKind = TaskKind::new("ownership", OnEnd::Stop, AtStop::Wait);
pub(super) const LEASE: TaskKind = TaskKind::new("lease", OnEnd::Stop, AtStop::Wait);
const CLEAN_UP: TaskKind = TaskKind::new("clean-up", OnEnd::Log, AtStop::Abort);
const RENEWALS: TaskKind = TaskKind::new("renewals", OnEnd::Log, AtStop::Abort);
const LISTENER: TaskKind = TaskKind::new("listener", OnEnd::Stop, AtStop::Abort);

/// What a start makes.
pub(super) struct Built {
    pub(super) app: Arc<App>,
    pub(super) listener: TcpListener,
    pub(super) pools: Vec<Catalog>,
    /// The drain window.
    pub(super) drain: Duration,
}

/// A process whose keepers run, and that is about to serve.
pub(super) struct Process {
    pub(super) built: Built,
    pub(super) starting: Latch,
}

impl Process {
    /// Serves until it is told to stop, or until lease or ownership are lost.
    pub(super) async fn run(self) -> ExitCode {
        let Self { built, starting } = self;
        let Built {
            app,
            listener,
            pools,
            drain,
        } = built;
        let tasks = app.tasks.clone();
        let closing = CancellationToken::new();
        announce(&app, &listener);
        let router = http::router(app.clone());
        tasks.spawn(LISTENER, http::serve(listener, router, tasks.clone(), closing.clone()));
        starting.release();

        tasks.stopping().await;
        exit_after(drain + HARD_LIMIT);
        settle(&tasks, &closing, drain).await;
        app.downloads.close();
        let order = tasks.order();
        if order.is_some_and(|order| order.at_once) {
            tracing::error!(code = "api.ownership_lost", reason = order.map(|order| order.reason));
            return ExitCode::FAILURE;
        }
        tasks.close(CLOSING).await;
        // A session that does not end in time ends with the process.
        let pools = futures_util::future::join_all(pools.iter().map(Catalog::close));
        let _ = tokio::time::timeout(CLOSING, pools).await;
        tracing::info!(code = "api.stopped");
        order.map_or(ExitCode::SUCCESS, |order| ExitCode::from(order.exit_code))
    }
}

/// Runs a keeper until the end. Its loss takes the process down at once: what is lost may soon be somebody else's
/// (docs/spec/leases.md 5.7).
pub(super) fn keep<F>(tasks: &Tasks, kind: TaskKind, run: impl FnOnce(CancellationToken) -> F)
where
    F: Future<Output = Ended> + Send + 'static,
{
    let running = run(tasks.hard().clone());
    let stopper = tasks.clone();
    tasks.spawn(kind, async move {
        if let Ended::Lost(cause) = running.await {
            stopper.stop(Stop::lost(cause.as_str()));
        }
    });
}

/// Tries again to take back what failed publications left while the database was away.
pub(super) fn clean_up_behind(tasks: &Tasks, publish: Arc<Publish>) {
    tasks.spawn(CLEAN_UP, async move {
        loop {
            tokio::time::sleep(CLEAN_UP_INTERVAL).await;
            publish.retry_abandoned().await;
        }
    });
}

/// Puts the time of every good renewal into the metrics.
pub(super) fn observe_renewals(tasks: &Tasks, metrics: &Metrics, lease: &Lease) {
    let (mut progress, metrics) = (lease.facts().progress(), metrics.clone());
    let ended = tasks.hard().clone();
    tasks.spawn(RENEWALS, async move {
        let mut seen = 0;
        loop {
            let now = *progress.borrow_and_update();
            if now.succeeded > seen {
                metrics.renewal(now.took);
                seen = now.succeeded;
            }
            if progress.changed().await.is_err() {
                // The lease has ended; its keeper says so.
                return ended.cancelled().await;
            }
        }
    });
}

fn announce(app: &App, listener: &TcpListener) {
    let address = listener.local_addr().ok();
    tracing::info!(
        code = "api.listening",
        address = address.map(|address| address.ip().to_string()),
        port = address.map(|address| address.port()),
        tls = false,
        role = app.member.role.as_str(),
        slot = app.member.place.map(|place| place.slot.number()),
    );
}

/// Refuses what is new and lets what runs run on, up to the window. A second signal, or a loss, ends it early.
async fn settle(tasks: &Tasks, closing: &CancellationToken, window: Duration) {
    if tasks.hard().is_cancelled() {
        return;
    }
    tracing::info!(code = "drain.started");
    let seen = SEEN_BY_BALANCERS.min(window);
    tasks.hard().run_until_cancelled(tokio::time::sleep(seen)).await;
    // No more connections; idle ones are closed, busy ones after their answer.
    closing.cancel();
    match tasks.drain(window.saturating_sub(seen)).await {
        Drained::Settled => tracing::info!(code = "drain.settled"),
        Drained::TimedOut => tracing::warn!(code = "drain.timeout"),
        // Said by whoever cut it short.
        Drained::CutShort => {}
    }
}
