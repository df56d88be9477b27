//! Where things lie under the data directory (docs/spec/storage.md 7.1).

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::durable::Disk;
use super::error::StartError;
use crate::model::id::ArtifactId;

/// The data directory. Its path may differ between processes.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
    blobs: PathBuf,
    staging: PathBuf,
}

impl Layout {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            blobs: root.join("blobs"),
            staging: root.join("staging"),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of finished files.
    pub(super) fn blobs(&self) -> &Path {
        &self.blobs
    }

    /// The folder of files being written.
    pub(super) fn staging(&self) -> &Path {
        &self.staging
    }

    /// A finished file.
    pub(super) fn blob(&self, id: ArtifactId) -> PathBuf {
        self.blobs.join(id.to_string())
    }

    /// The folder of one upload's files being written.
    pub(super) fn staging_of(&self, id: ArtifactId) -> PathBuf {
        self.staging.join(id.to_string())
    }

    /// A new name for a file being written.
    pub(super) fn new_staged(&self, id: ArtifactId) -> PathBuf {
        self.staging_of(id).join(Uuid::new_v4().to_string())
    }

    /// The writer's part: makes the root and its folders durably.
    pub(super) fn create(&self, disk: &Disk) -> Result<(), StartError> {
        for folder in [&self.blobs, &self.staging, &self.root.join("parts")] {
            disk.make_dir_durably(folder)?;
        }
        Ok(())
    }

    /// The reader's part: creates nothing.
    pub(super) fn require(&self) -> Result<(), StartError> {
        if self.blobs.is_dir() {
            Ok(())
        } else {
            Err(StartError::NoBlobs)
        }
    }
}
