//! Finished files get their final names (docs/spec/storage.md 7.2, step 5; equal bytes are stored once).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::blocking::off_thread;
use super::durable::{self, Linked};
use super::error::Error;
use super::staged::StagedName;
use super::volume::Volume;
use crate::model::digest::{Digest, Hasher};
use crate::model::id::ArtifactId;

/// A file that is written, but neither durable nor published. Dropped, it is removed.
pub struct Sealed {
    name: StagedName,
    file: File,
    content: Content,
}

/// What makes bytes equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    size: u64,
    digest: Digest,
}

/// A file that will be found under its id after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its size in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
    /// Where its bytes are.
    pub stored: Stored,
}

/// Where the bytes of a published file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// They are the ones that were staged.
    Own,
    /// They were under this name already; they were verified.
    Found,
    /// The name leads to an equal file's bytes; they were verified.
    Shared,
    /// They are the ones that were staged, although an equal file was said to exist.
    Apart(Apart),
}

/// Why an equal file was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// It doesn't exist (any more).
    Gone,
    /// It has all the names that a file can have.
    Crowded,
    /// It can't be read, or its bytes are not what they should be: the operator should know.
    Damaged,
}

impl Sealed {
    pub(super) fn new(name: StagedName, file: File, size: u64, digest: Digest) -> Self {
        Self {
            name,
            file,
            content: Content { size, digest },
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.content.size
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        self.content.digest
    }

    /// Publishes the file under the id of its upload.
    ///
    /// If that name exists, the file there is verified instead: equal bytes are as good, others are
    /// [`Error::Occupied`]. Publishing goes on when the caller stops waiting.
    pub async fn publish(self) -> Result<Published, Error> {
        off_thread(move || self.publish_own(Stored::Own)).await?
    }

    /// Publishes the file as another name of the published file `equal`, whose bytes are said to be the same.
    ///
    /// They are verified before the staged ones are given up in their favour. Where they can't be used, the staged file
    /// is published itself, and [`Stored::Apart`] says why.
    pub async fn publish_as(self, equal: ArtifactId) -> Result<Published, Error> {
        off_thread(move || {
            if equal == self.name.id {
                return self.publish_own(Stored::Own);
            }
            match self.share(equal)? {
                Ok(published) => Ok(published),
                Err(why) => self.publish_own(Stored::Apart(why)),
            }
        })
        .await?
    }

    fn publish_own(self, stored: Stored) -> Result<Published, Error> {
        let inner = &self.name.volume.0;
        inner.disk.sync_file(&self.file, &self.name.path)?;
        let to = inner.layout.blob(self.name.id);
        match inner.disk.publish(&self.name.path, &to)? {
            Linked::New => Ok(self.content.published(stored)),
            Linked::Existed => self.content.found_at(&to),
        }
    }

    fn share(&self, equal: ArtifactId) -> Result<Result<Published, Apart>, Error> {
        let inner = &self.name.volume.0;
        let (from, to) = (inner.layout.blob(equal), inner.layout.blob(self.name.id));
        match self.content.is_at(&from) {
            Ok(true) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Apart::Gone)),
            Ok(false) | Err(_) => return Ok(Err(Apart::Damaged)),
        }
        match inner.disk.publish(&from, &to) {
            Ok(Linked::New) => Ok(Ok(self.content.published(Stored::Shared))),
            Ok(Linked::Existed) => self.content.found_at(&to).map(Ok),
            // The collector was faster. Ids are never used again, so that no other file can be there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Err(Apart::Gone)),
            Err(error) if error.kind() == io::ErrorKind::TooManyLinks => Ok(Err(Apart::Crowded)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Content {
    fn published(self, stored: Stored) -> Published {
        Published {
            size: self.size,
            digest: self.digest,
            stored,
        }
    }

    /// A published file with this content, if that is what is found at `path`.
    fn found_at(self, path: &Path) -> Result<Published, Error> {
        if self.is_at(path)? {
            Ok(self.published(Stored::Found))
        } else {
            Err(Error::Occupied)
        }
    }

    fn is_at(self, path: &Path) -> io::Result<bool> {
        let file = durable::open_file(path)?;
        // Hashing is for files that could be equal.
        Ok(file.metadata()?.len() == self.size && Self::of(file)? == self)
    }

    fn of(mut file: File) -> io::Result<Self> {
        let mut buffer = vec![0; 1 << 20];
        let mut hasher = Hasher::default();
        let mut size = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    size += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            size,
            digest: hasher.finish(),
        })
    }
}

impl Volume {
    /// What is published under `id`, by its bytes, if anything: for an upload whose process died between the file and
    /// the catalog's commit (docs/spec/storage.md 7.2, step 7). Reads the whole file.
    pub async fn recover(&self, id: ArtifactId) -> Result<Option<Published>, Error> {
        let volume = self.clone();
        off_thread(move || {
            volume.space()?;
            let inner = &volume.0;
            let file = match durable::open_file(&inner.layout.blob(id)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let content = Content::of(file)?;
            // That process may have died before this.
            inner.disk.sync_dir(inner.layout.blobs())?;
            Ok(Some(content.published(Stored::Found)))
        })
        .await?
    }
}
