//! Files being written (docs/spec/storage.md 7.2, steps 3 and 4).

use std::fs::File;
use std::io;
use std::mem;
use std::path::PathBuf;

use bytes::Bytes;
use tokio::task::{JoinHandle, spawn_blocking};

use super::blocking::{joined, off_thread};
use super::durable::MOST_PIECES;
use super::error::Error;
use super::publish::Sealed;
use super::space::Claim;
use super::volume::Volume;
use crate::model::digest::Hasher;
use crate::model::id::ArtifactId;

/// The most bytes that are hashed and written at a time.
const SLICE: usize = 1 << 20;

impl Volume {
    /// Begins a file of the upload `id`.
    ///
    /// With `declared`, the room for it is claimed at once, and exactly that many bytes must come. Fails with
    /// [`Error::Full`] if the volume can't hold it beside all others in flight and the reserve.
    pub async fn stage(&self, id: ArtifactId, declared: Option<u64>) -> Result<Staged, Error> {
        let volume = self.clone();
        off_thread(move || {
            let claim = volume.space()?.claim(declared)?;
            let (name, file) = StagedName::create(volume, id)?;
            Ok(Staged {
                writing: Writing::Idle(Sink {
                    path: name.path.clone(),
                    volume: name.volume.clone(),
                    file,
                    hasher: Hasher::default(),
                    written: 0,
                    claim,
                }),
                name,
                declared,
                taken: 0,
                gathered: Vec::new(),
                gathered_bytes: 0,
            })
        })
        .await?
    }
}

/// A file being written. Dropped, it is removed.
pub struct Staged {
    writing: Writing,
    name: StagedName,
    declared: Option<u64>,
    taken: u64,
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
}

enum Writing {
    Idle(Sink),
    Busy(JoinHandle<Result<Sink, Error>>),
    Broken,
}

impl Staged {
    /// Takes the next bytes.
    ///
    /// They are hashed and written on the blocking pool, up to 1 MiB at a time, while the next are gathered: an error
    /// may therefore be told by a later call. More than was declared is [`Error::TooLong`]. A call that is dropped half
    /// way makes the file [`Error::Broken`].
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        // Counted even if refused: then the file can't be finished.
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        if self.declared.is_some_and(|declared| self.taken > declared) {
            return Err(Error::TooLong);
        }
        while !bytes.is_empty() {
            let room = SLICE - self.gathered_bytes;
            let piece = bytes.split_to(room.min(bytes.len()));
            self.gathered_bytes += piece.len();
            self.gathered.push(piece);
            if self.gathered_bytes == SLICE || self.gathered.len() == MOST_PIECES {
                self.pass_on().await?;
            }
        }
        Ok(())
    }

    /// Ends the file and tells its size and digest. Fewer bytes than were declared are [`Error::TooShort`].
    ///
    /// It is not durable yet: only publishing makes it so.
    pub async fn finish(mut self) -> Result<Sealed, Error> {
        if !self.gathered.is_empty() {
            self.pass_on().await?;
        }
        let sink = self.idle().await?;
        if sink.written != self.taken {
            return Err(Error::Broken);
        }
        if self.declared.is_some_and(|declared| sink.written < declared) {
            return Err(Error::TooShort);
        }
        Ok(Sealed::new(self.name, sink.file, sink.written, sink.hasher.finish()))
    }

    /// Hands what was gathered to the blocking pool, as soon as it is done with what came before.
    async fn pass_on(&mut self) -> Result<(), Error> {
        let sink = self.idle().await?;
        let pieces = mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        self.writing = Writing::Busy(spawn_blocking(move || sink.write(&pieces)));
        Ok(())
    }

    async fn idle(&mut self) -> Result<Sink, Error> {
        if let Writing::Busy(work) = &mut self.writing {
            let result = work.await;
            self.writing = Writing::Broken;
            return joined(result)?;
        }
        match mem::replace(&mut self.writing, Writing::Broken) {
            Writing::Idle(sink) => Ok(sink),
            Writing::Busy(_) | Writing::Broken => Err(Error::Broken),
        }
    }
}

/// Where the bytes go: travels to the blocking pool and back.
struct Sink {
    volume: Volume,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    written: u64,
    claim: Claim,
}

impl Sink {
    fn write(mut self, pieces: &[Bytes]) -> Result<Self, Error> {
        let count = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.claim.before_write(count)?;
        for piece in pieces {
            self.hasher.update(piece);
        }
        self.volume.0.disk.write(&self.file, &self.path, pieces)?;
        self.claim.after_write(count);
        self.written += count;
        Ok(self)
    }
}

/// The name of a file being written. Dropped, the name is taken away, and the upload's folder if nothing else is in it.
///
/// That is done in place: a name takes no time, and the blocks go when the descriptor does.
pub(super) struct StagedName {
    pub(super) volume: Volume,
    pub(super) id: ArtifactId,
    pub(super) path: PathBuf,
}

impl StagedName {
    fn create(volume: Volume, id: ArtifactId) -> Result<(Self, File), Error> {
        let inner = &volume.0;
        // Another file of this upload may take the folder away between the two calls, but not for ever.
        let mut tries = 3;
        let (path, file) = loop {
            let path = inner.layout.new_staged(id);
            inner.disk.make_dir(&inner.layout.staging_of(id))?;
            match inner.disk.make_file(&path) {
                Ok(file) => break (path, file),
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries > 0 => tries -= 1,
                Err(error) => {
                    let _ = inner.disk.remove_dir(&inner.layout.staging_of(id));
                    return Err(error.into());
                }
            }
        };
        inner.counters.open_staged.up();
        Ok((Self { volume, id, path }, file))
    }
}

impl Drop for StagedName {
    fn drop(&mut self) {
        let inner = &self.volume.0;
        inner.counters.open_staged.down();
        // What stays behind is swept at the next start.
        let _ = inner.disk.unlink(&self.path);
        let _ = inner.disk.remove_dir(&inner.layout.staging_of(self.id));
    }
}
