//! Published files open for reading, protected from the collector (docs/spec/storage.md 7.4).

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, flock, openat, openat2};
use rustix::io::Errno;

use super::blocking::off_thread;
use super::error::OpenError;
use super::reader::Reader;
use super::volume::Volume;
use crate::model::id::ArtifactId;
use crate::model::range::ByteRange;

/// How often the lock is asked for before the answer is that the collector has the file: for 100 ms.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A published file, open and protected until the last clone and reader of it is gone.
#[derive(Clone)]
pub struct Blob(pub(super) Arc<Open>);

pub(super) struct Open {
    pub(super) volume: Volume,
    pub(super) file: File,
    size: u64,
}

impl Volume {
    /// Opens the published file `id`, which must have `expected_size` bytes, and keeps the collector off it.
    ///
    /// Usually without leaving the async thread: only a name that the kernel doesn't remember is looked up on the
    /// blocking pool. While the collector holds the file, waits for up to 100 ms.
    pub async fn open(&self, id: ArtifactId, expected_size: u64) -> Result<Blob, OpenError> {
        let file = self.find(id).await?;
        lock_shared(&file).await?;
        let found = file.metadata()?;
        if found.nlink() == 0 {
            return Err(OpenError::Absent);
        }
        if found.len() != expected_size {
            return Err(OpenError::WrongLength {
                expected: expected_size,
                found: found.len(),
            });
        }
        self.0.counters.open_blobs.up();
        Ok(Blob(Arc::new(Open {
            volume: self.clone(),
            file,
            size: found.len(),
        })))
    }

    async fn find(&self, id: ArtifactId) -> Result<File, OpenError> {
        let name = id.to_string();
        let remembered = openat2(&self.0.blobs, name.as_str(), FLAGS, Mode::empty(), ResolveFlags::CACHED);
        let found = match remembered {
            Ok(file) => Ok(file),
            Err(Errno::NOENT) => Err(Errno::NOENT),
            // Not remembered, or the call is unknown to the kernel or kept from this process.
            Err(_) => {
                let volume = self.clone();
                off_thread(move || openat(&volume.0.blobs, name.as_str(), FLAGS, Mode::empty())).await?
            }
        };
        match found {
            Ok(file) => Ok(file.into()),
            Err(Errno::NOENT) => Err(OpenError::Absent),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

async fn lock_shared(file: &File) -> Result<(), OpenError> {
    for attempt in 0..=TRIES {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        match flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    Err(OpenError::Reclaiming)
}

impl Blob {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// Reads the bytes of `range`, which lies within the file.
    pub fn reader(&self, range: ByteRange) -> Reader {
        Reader::new(self.clone(), range)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // The lock goes with the descriptor.
        self.volume.0.counters.open_blobs.down();
    }
}
