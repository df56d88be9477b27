use super::Error;
use crate::catalog::artifacts::{self, Content};
use crate::catalog::{Catalog, within};
use crate::model::id::ArtifactId;
use crate::model::name::{AssetPath, Repository};
use crate::storage::{Blob, OpenError, Volume};

/// What a client wants the bytes of.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// This artifact.
    Artifact(ArtifactId),
    /// What this path holds now.
    Path(AssetPath),
}

/// An artifact whose file is open, and protected from the collector while it is.
pub struct Opened {
    /// What the catalog knows of it.
    pub content: Content,
    /// Its file.
    pub blob: Blob,
}

/// Opens published bytes (docs/spec/storage.md 7.3 and 7.4).
#[derive(Clone)]
pub struct Fetch {
    catalog: Catalog,
    volume: Volume,
}

impl Fetch {
    /// Fetches what `catalog` knows from `volume`.
    pub fn new(catalog: Catalog, volume: Volume) -> Self {
        Self { catalog, volume }
    }

    /// Opens what is wanted; `None` if it is not there.
    ///
    /// A file that is gone is looked up once more: its artifact may have been deleted, or the path may hold another one.
    pub async fn open(&self, repository: &Repository, wanted: &Wanted) -> Result<Option<Opened>, Error> {
        for _ in 0..2 {
            let Some(content) = self.look_up(repository, wanted).await? else {
                return Ok(None);
            };
            match self.volume.open(content.id, content.size).await {
                Ok(blob) => return Ok(Some(Opened { content, blob })),
                Err(OpenError::Absent) => {}
                Err(error) => {
                    if matches!(error, OpenError::WrongLength { .. }) {
                        tracing::error!(code = "download.integrity_mismatch", artifact = %content.id);
                    }
                    return Err(error.into());
                }
            }
        }
        tracing::error!(code = "download.file_missing");
        Err(Error::Missing)
    }

    async fn look_up(&self, repository: &Repository, wanted: &Wanted) -> Result<Option<Content>, Error> {
        let mut db = self.catalog.connection().await?;
        let content = match wanted {
            Wanted::Artifact(id) => within(artifacts::content(&mut db, repository, *id)).await?,
            Wanted::Path(path) => within(artifacts::content_at(&mut db, repository, path)).await?,
        };
        Ok(content)
    }
}
