//! Names are taken away: by the collector, and from what was never published (docs/spec/storage.md 7.4 and 7.5).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::blocking::off_thread;
use super::durable::{self, Disk};
use super::error::Error;
use super::identity;
use super::volume::{Inner, Volume};
use crate::model::id::ArtifactId;

/// What became of a file that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Its name is gone for ever.
    Removed,
    /// There was no such file, and there won't be after a power cut.
    Absent,
    /// Somebody reads it; try again later.
    Deferred,
}

impl Volume {
    /// Takes the name `id` away from a published file, unless it is the last name of bytes that somebody is reading, in
    /// any process.
    ///
    /// Locks belong to the bytes, which equal files share. As long as the bytes have another name, a reader loses
    /// nothing, so no lock is needed.
    pub async fn remove_blob(&self, id: ArtifactId) -> Result<Removal, Error> {
        let volume = self.clone();
        off_thread(move || {
            volume.space()?;
            Ok(remove_blob(&volume.0, &volume.0.layout.blob(id))?)
        })
        .await?
    }

    /// Removes whatever the upload `id` has staged.
    pub async fn discard_staging(&self, id: ArtifactId) -> Result<(), Error> {
        let volume = self.clone();
        off_thread(move || {
            volume.space()?;
            remove_tree(&volume.0.disk, &volume.0.layout.staging_of(id))?;
            Ok(volume.0.disk.sync_dir(volume.0.layout.staging())?)
        })
        .await?
    }

    /// Removes everything that an earlier process left half made, and tells whose it was.
    ///
    /// Blocks. Only for the start, and only once this process owns the storage (docs/spec/leases.md 5.6): another
    /// writer's files would be taken from under it.
    pub fn sweep_staging(&self) -> Result<Vec<ArtifactId>, Error> {
        self.space()?;
        let Inner { disk, layout, .. } = &*self.0;
        let mut ids = Vec::new();
        for entry in fs::read_dir(layout.staging())? {
            let entry = entry?;
            ids.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<ArtifactId>().ok()),
            );
            remove_tree(disk, &entry.path())?;
        }
        disk.sync_dir(layout.staging())?;
        for entry in fs::read_dir(layout.root())? {
            let entry = entry?;
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(identity::TEMPORARY))
            {
                disk.unlink(&entry.path())?;
            }
        }
        Ok(ids)
    }
}

fn remove_blob(inner: &Inner, path: &Path) -> io::Result<Removal> {
    let file = match durable::open_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return absent(inner),
        Err(error) => return Err(error),
    };
    if names(&file)? <= 1 {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Removal::Deferred),
            Err(error) => return Err(error.into()),
        }
        if names(&file)? == 0 {
            return absent(inner);
        }
    }
    match inner.disk.unlink_durably(path) {
        Ok(()) => Ok(Removal::Removed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => absent(inner),
        Err(error) => Err(error),
    }
    // Only here the lock goes: a reader that waited for it finds bytes without a name.
}

/// Nothing is there, but whoever removed it may have died before that was durable.
fn absent(inner: &Inner) -> io::Result<Removal> {
    inner.disk.sync_dir(inner.layout.blobs())?;
    Ok(Removal::Absent)
}

/// How many names the bytes have.
fn names(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.nlink())
}

/// Removes a file, or a directory with all in it. Symbolic links are not followed. What is gone already is fine.
fn remove_tree(disk: &Disk, path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            for entry in fs::read_dir(path)? {
                remove_tree(disk, &entry?.path())?;
            }
            disk.remove_dir(path)
        }
        Ok(_) => disk.unlink(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
