//! The volume itself: opened once per process, handed around by cloning.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::buffers::Buffers;
use super::certify;
use super::counters::{Counters, Counts};
use super::durable::Disk;
use super::error::{Error, StartError};
use super::identity;
use super::layout::Layout;
use super::space::{self, Space};
use super::steps::Steps;

/// A data directory in use (docs/spec/storage.md 7.1). Cheap to clone.
#[derive(Clone)]
pub struct Volume(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) layout: Layout,
    pub(super) blobs: File,
    pub(super) disk: Disk,
    pub(super) counters: Counters,
    pub(super) buffers: Arc<Buffers>,
    identity: Uuid,
    /// Only where the volume may be changed.
    space: Option<Arc<Space>>,
}

impl Volume {
    /// Opens `directory` for the writer: makes its folders and identity if they are missing, and proves that locks and
    /// hard links work there (docs/spec/storage.md 7.1 and 7.4). Uploads are refused when less than `reserve` bytes
    /// would stay free. Network file systems need `allow_uncertified`.
    ///
    /// Blocks; meant for the start of the process. It owns nothing yet: another writer may have the directory open.
    pub fn open_for_writing(directory: &Path, reserve: u64, allow_uncertified: bool) -> Result<Self, StartError> {
        Self::open_for_writing_watched(directory, reserve, allow_uncertified, Steps::default())
    }

    /// The same, with `steps` asked before each change of the volume, for tests.
    pub fn open_for_writing_watched(
        directory: &Path,
        reserve: u64,
        allow_uncertified: bool,
        steps: Steps,
    ) -> Result<Self, StartError> {
        let layout = Layout::new(directory);
        let disk = Disk::new(steps);
        if !allow_uncertified {
            for folder in [layout.root(), layout.blobs(), layout.staging()] {
                certify::refuse_uncertified(folder)?;
            }
        }
        layout.create(&disk)?;
        certify::prove(&disk, &layout)?;
        let identity = identity::obtain(&disk, layout.root())?;
        let space = Space::new(File::open(layout.staging())?, reserve);
        Self::new(layout, disk, identity, Some(space))
    }

    /// Opens `directory` for a reader, which changes nothing in it; a read-only mount is enough. Its `blobs` folder and
    /// identity must exist. Network file systems need `allow_uncertified`.
    ///
    /// Blocks; meant for the start of the process.
    pub fn open_for_reading(directory: &Path, allow_uncertified: bool) -> Result<Self, StartError> {
        let layout = Layout::new(directory);
        layout.require()?;
        if !allow_uncertified {
            for folder in [layout.root(), layout.blobs()] {
                certify::refuse_uncertified(folder)?;
            }
        }
        let identity = identity::read(layout.root())?.ok_or(StartError::NoIdentity)?;
        Self::new(layout, Disk::default(), identity, None)
    }

    fn new(layout: Layout, disk: Disk, identity: Uuid, space: Option<Space>) -> Result<Self, StartError> {
        Ok(Self(Arc::new(Inner {
            blobs: File::open(layout.blobs())?,
            layout,
            disk,
            counters: Counters::default(),
            buffers: Arc::default(),
            identity,
            space: space.map(Arc::new),
        })))
    }

    /// The identity of the directory, which the database must know (docs/spec/leases.md 5.6, step 5).
    pub fn identity(&self) -> Uuid {
        self.0.identity
    }

    /// Whether the directory still is where it was: for readiness. One system call.
    pub fn healthy(&self) -> bool {
        let place = |found: fs::Metadata| (found.dev(), found.ino());
        match (fs::metadata(self.0.layout.blobs()), self.0.blobs.metadata()) {
            (Ok(now), Ok(then)) => place(now) == place(then),
            _ => false,
        }
    }

    /// Bytes that may still be written on the volume, the reserve included.
    pub fn free_bytes(&self) -> io::Result<u64> {
        space::available(&self.0.blobs)
    }

    /// Whether the volume was opened for writing and its reserve is untouched: for readiness. One system call.
    pub fn writable(&self) -> bool {
        self.0
            .space
            .as_ref()
            .is_some_and(|space| space.has_reserve().unwrap_or(false))
    }

    /// The figures for metrics.
    pub fn counts(&self) -> Counts {
        let in_flight = self.0.space.as_ref().map_or(0, |space| space.in_flight());
        self.0.counters.counts(in_flight)
    }

    /// The room of a volume that may be changed.
    pub(super) fn space(&self) -> Result<&Arc<Space>, Error> {
        self.0.space.as_ref().ok_or(Error::ReadOnly)
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Volume").field(&self.0.identity).finish()
    }
}
