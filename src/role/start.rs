//! The start, in the order of docs/spec/leases.md 5.6.

use std::io::Read as _;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::facts::{PlaceFacts, Sources, TelemetryCounts};
use super::process::{Built, LEASE, OWNERSHIP, Process, clean_up_behind, keep, observe_renewals};
use crate::artifact::{self, ChangeRight, Fetch, Publish};
use crate::auth::{BadKeysFile, KeyRing};
use crate::budget::share::Rates;
use crate::budget::{
    self,
    meter::{Limits, Meter},
};
use crate::catalog::connect::Database;
use crate::catalog::{self, Catalog, schema};
use crate::clock::Clock;
use crate::config::file::errno_name;
use crate::config::{Config, Gateway, SlotChoice};
use crate::http::{App, Health, Member, Place};
use crate::lease::{self, Claim, Instance, Lease, Ownership, Policy, Wanted};
use crate::model::failure::{Classify, Kind};
use crate::model::member::Role;
use crate::model::trust::Trust;
use crate::storage::{self, Volume};
use crate::supervise::{Stop, Tasks, signals};
use crate::telemetry::metrics::Metrics;

/// Uploads that are published at the same moment; each has a session of its own for its lock. More wait.
const UPLOADS_AT_ONCE: u32 = 8;

/// Why a process could not start. The text names what to mend.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Volume(#[from] storage::StartError),
    #[error(transparent)]
    Keys(#[from] BadKeysFile),
    #[error("Invalid ARKVORY_KEYS_FILE: the file can't be read ({0})")]
    KeysUnreadable(String),
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Lease(#[from] lease::Error),
    #[error(transparent)]
    Policy(#[from] lease::BadPolicy),
    #[error(transparent)]
    Budget(#[from] budget::Error),
    #[error("what a crash left could not be cleaned up: {0}")]
    Recovery(#[from] artifact::Error),
    #[error("ARKVORY_HOST and ARKVORY_PORT: {0}")]
    Listen(std::io::ErrorKind),
    #[error("signals can't be received ({0})")]
    Signals(String),
    /// Told to stop before it was up.
    #[error("stopped while starting: {}", .0.reason)]
    Stopped(Stop),
}

impl Classify for Failure {
    fn kind(&self) -> Kind {
        match self {
            Self::Volume(error) => error.kind(),
            Self::Keys(_) | Self::KeysUnreadable(_) | Self::Policy(_) => Kind::InvalidInput,
            Self::Catalog(error) => error.kind(),
            Self::Lease(error) => error.kind(),
            Self::Budget(error) => error.kind(),
            Self::Recovery(error) => error.kind(),
            Self::Listen(_) | Self::Signals(_) | Self::Stopped(_) => Kind::Unavailable,
        }
    }
}

/// How long a successor waits for the sessions of a process that has just ended.
const SUCCESSION: Duration = Duration::from_millis(250);
/// How long what was acquired may take to be released after a start that failed.
const RELEASING: Duration = Duration::from_secs(2);

/// Starts a process. When a step fails, everything that earlier ones acquired is released.
pub(super) async fn start(
    config: Config,
    instance: Instance,
    clock: Arc<dyn Clock>,
    counts: TelemetryCounts,
) -> Result<Process, Failure> {
    let (tasks, starting) = Tasks::new();
    signals::listen(&tasks).map_err(|error| Failure::Signals(errno_name(&error).into_owned()))?;
    let built = tokio::select! {
        built = Box::pin(build(config, instance, clock, counts, &tasks)) => built,
        order = tasks.stopping() => Err(Failure::Stopped(order)),
    };
    match built {
        Ok(built) => Ok(Process { built, starting }),
        Err(failure) => {
            tasks.close(RELEASING).await;
            Err(failure)
        }
    }
}

async fn build(
    config: Config,
    instance: Instance,
    clock: Arc<dyn Clock>,
    counts: TelemetryCounts,
    tasks: &Tasks,
) -> Result<Built, Failure> {
    let metrics = Metrics::new(clock.now());
    let keys = read_keys(&config)?;
    let database = Database::new(config.database.url.expose_secret(), config.role.as_str())?;
    if database.exposes_plaintext() {
        tracing::warn!(code = "database.plaintext_exposed");
    }
    let volume = open_volume(&config)?;
    let mut db = database.open_at_start(&*clock).await?;
    schema::check(&mut db).await?;
    drop(db);

    // Both are kept from the moment that they are there: the steps behind them can take longer than either lasts.
    let claim = claim(&config);
    let ownership = claim_patiently(&database, claim, &volume, &clock).await?;
    let (changes, ownership_facts) = (ownership.changes(), ownership.facts());
    let mut windows = vec![ownership.window()];
    keep(tasks, OWNERSHIP, |end| ownership.run(end));
    let mut place = None;
    if let Some(gateway) = &config.gateway {
        let lease = Lease::acquire(settings(gateway, &database, instance)?, clock.clone()).await?;
        windows.push(lease.window());
        place = Some(PlaceFacts::of(&lease));
        observe_renewals(tasks, &metrics, &lease);
        keep(tasks, LEASE, |end| lease.run(end));
    }
    let trust = Trust::new(clock.clone(), windows);

    let catalog = Catalog::new(&database, config.database.pool_size);
    let probe = Catalog::new(&database, 1);
    let mut pools = vec![catalog.clone(), probe.clone()];
    let mut publish = None;
    if config.role == Role::Api {
        let uploads = Catalog::new(&database, UPLOADS_AT_ONCE);
        pools.push(uploads.clone());
        let right = ChangeRight::new(trust.clone(), changes);
        let taken_back = artifact::recover(&catalog, &volume, &right).await?;
        if taken_back > 0 {
            tracing::warn!(code = "upload.recovered", count = taken_back);
        }
        let publishing = Arc::new(Publish {
            catalog: catalog.clone(),
            uploads,
            volume: volume.clone(),
            right,
            clock: clock.clone(),
            capacity: config.storage.capacity,
            max_object: config.storage.max_object,
            turns: Semaphore::new(UPLOADS_AT_ONCE as usize),
            abandoned: Mutex::default(),
        });
        clean_up_behind(tasks, publishing.clone());
        publish = Some(publishing);
    }

    let downloads = Meter::new(rates(&config), Limits::for_transfers(0), clock.clone(), trust.clone());
    for principal in keys.principals() {
        downloads.register(&principal)?;
    }
    let listener = TcpListener::bind(config.http.address()).await;
    let listener = listener.map_err(|error| Failure::Listen(error.kind()))?;
    let member = Member {
        role: config.role,
        place: place.as_ref().map(|place| Place {
            slot: place.slot,
            slots: place.slots,
        }),
    };
    let sources = Sources {
        clock: clock.clone(),
        volume: volume.clone(),
        downloads: downloads.clone(),
        tasks: tasks.clone(),
        telemetry: counts,
        ownership: ownership_facts,
        place,
    };
    let app = Arc::new(App {
        member,
        tasks: tasks.clone(),
        keys,
        trusted_proxies: config.http.trusted_proxies,
        access_log: config.http.access_log,
        facts: Box::new(move || sources.read()),
        health: Health::new(probe, volume.clone(), trust.clone(), clock.clone()),
        fetch: Fetch::new(catalog.clone(), volume.clone()),
        max_object: config.storage.max_object,
        metrics,
        clock,
        trust,
        catalog,
        volume,
        downloads,
        publish,
    });
    Ok(Built {
        app,
        listener,
        pools,
        drain: config.http.drain,
    })
}

/// Claims the storage; once more if it is busy, as PostgreSQL needs up to 100 ms to notice that a process has gone.
async fn claim_patiently(
    database: &Database,
    claim: Claim,
    volume: &Volume,
    clock: &Arc<dyn Clock>,
) -> Result<Ownership, lease::Error> {
    match Ownership::claim(database.clone(), claim, volume.identity(), clock.clone()).await {
        Err(error) if error.kind() == Kind::Busy => {
            tokio::time::sleep(SUCCESSION).await;
            Ownership::claim(database.clone(), claim, volume.identity(), clock.clone()).await
        }
        outcome => outcome,
    }
}

fn claim(config: &Config) -> Claim {
    match (config.role, &config.gateway) {
        (Role::Reader, _) => Claim::Reader,
        (Role::Api, Some(_)) => Claim::Writer,
        (Role::Api, None) => Claim::Standalone,
    }
}

fn read_keys(config: &Config) -> Result<KeyRing, Failure> {
    let mut text = String::new();
    let read = std::fs::File::open(&config.keys_file)
        .and_then(|file| file.take(KeyRing::LARGEST_FILE as u64 + 1).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(KeyRing::parse(&text)?),
        Err(error) => Err(Failure::KeysUnreadable(errno_name(&error).into_owned())),
    }
}

fn open_volume(config: &Config) -> Result<Volume, storage::StartError> {
    let storage = &config.storage;
    match config.role {
        Role::Api => Volume::open_for_writing(&storage.dir, storage.reserve, storage.allow_uncertified),
        Role::Reader => Volume::open_for_reading(&storage.dir, storage.allow_uncertified),
    }
}

fn settings(gateway: &Gateway, database: &Database, instance: Instance) -> Result<lease::Settings, lease::BadPolicy> {
    Ok(lease::Settings {
        database: database.clone(),
        policy: Policy::new(gateway.slots, gateway.total, gateway.per_principal)?,
        wanted: match gateway.slot {
            SlotChoice::Fixed(slot) => Wanted::Fixed(slot),
            SlotChoice::Auto => Wanted::Auto,
        },
        instance,
    })
}

/// The smaller of the slot's share and the local limit (docs/spec/bandwidth.md 6.3).
fn rates(config: &Config) -> Rates {
    let local = Rates {
        per_second: config.budget.download_rate,
        per_principal: config.budget.download_rate_per_principal,
    };
    match config.gateway {
        None => local,
        Some(gateway) => {
            let shared = Rates {
                per_second: gateway.total,
                per_principal: gateway.per_principal,
            };
            let slots = NonZeroU32::new(u32::from(gateway.slots)).unwrap_or(NonZeroU32::MIN);
            shared.share(slots).lowered_by(local)
        }
    }
}
