use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use sqlx::Connection as _;
use tokio::sync::Semaphore;

use super::{ChangeRight, Error, Interruption};
use crate::catalog::assets::{self, Current};
use crate::catalog::uploads::{self, Reservation, Reserved};
use crate::catalog::{Catalog, within};
use crate::clock::Clock;
use crate::model::digest::Digest;
use crate::model::failure::Classify as _;
use crate::model::id::ArtifactId;
use crate::model::name::{AssetPath, Repository};
use crate::model::principal::PrincipalId;
use crate::storage::{Apart, Sealed, Stored, Volume};

/// How long a sender may be silent (docs/spec/http-api.md 2.5).
const SENDER_IDLE: Duration = Duration::from_secs(30);
/// How long receiving one upload may take (docs/spec/http-api.md 2.5).
const UPLOAD_DEADLINE: Duration = Duration::from_mins(30);

/// One file to put at a path (docs/spec/http-api.md 2.7).
#[derive(Clone, Debug)]
pub struct Publication {
    /// Where it belongs.
    pub repository: Repository,
    /// The path in it.
    pub path: AssetPath,
    /// Who publishes.
    pub owner: PrincipalId,
    /// The digest that the request declares.
    pub digest: Option<Digest>,
    /// The length that the request declares, in bytes.
    pub length: Option<u64>,
    /// Refuse a path that is there already, even with equal bytes.
    pub only_new: bool,
}

impl Publication {
    fn declares(&self, current: &Current) -> bool {
        self.digest == Some(current.digest) && self.length == Some(current.size)
    }
}

/// What came of an artifact whose file has its name.
enum Committed {
    /// The path holds it, as this revision.
    Added(i32),
    /// Somebody else put the same bytes at the path meanwhile; this copy of them is not needed.
    Held(Current),
    /// The path had to be new and no longer was.
    Taken,
    /// Somebody else put other bytes at the path meanwhile; the artifact has no path.
    Unnamed,
}

/// What a path holds after a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// What the path holds.
    pub current: Current,
    /// Whether this publication added the revision; false when the path held these bytes already.
    pub created: bool,
    /// Whether the request's body was read to its end.
    pub body_read: bool,
}

/// Publishes files (docs/spec/storage.md 7.2).
pub struct Publish {
    /// For everything but the upload's own session.
    pub catalog: Catalog,
    /// Sessions that hold the lock of one upload each.
    pub uploads: Catalog,
    /// Where the bytes go.
    pub volume: Volume,
    /// Asked before and after.
    pub right: ChangeRight,
    /// Tells the deadline.
    pub clock: Arc<dyn Clock>,
    /// Bytes that all repositories may hold together.
    pub capacity: u64,
    /// Bytes that one object may have.
    pub max_object: u64,
    /// One for each session of `uploads`.
    pub turns: Semaphore,
    /// Failed publications of which something may be left.
    pub abandoned: Mutex<Vec<ArtifactId>>,
}

impl Publish {
    /// Stores `body` at the publication's path. To be run detached from the connection: once begun, it ends in a
    /// published file or in nothing at all, whatever the client does.
    pub async fn run<E>(
        &self,
        publication: Publication,
        body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Published, Error> {
        self.right.check()?;
        let seen = self.current(&publication).await?;
        if publication.only_new && seen.is_some() {
            return Err(Error::AlreadyExists);
        }
        if let Some(current) = seen.as_ref().filter(|current| publication.declares(current)) {
            return Ok(Published {
                current: current.clone(),
                created: false,
                body_read: false,
            });
        }
        if publication.length.is_some_and(|length| length > self.max_object) {
            return Err(Error::TooLarge);
        }

        let id = ArtifactId::random();
        let result = self.reserve_and_store(&publication, id, seen.as_ref(), body).await;
        // What a lost race for the path leaves is an artifact by itself (docs/spec/http-api.md 2.7); nothing else stays.
        let stays = match &result {
            Ok(published) => published.created,
            Err(error) => matches!(error, Error::RevisionMismatch),
        };
        if !stays {
            self.give_up(id).await;
        }
        result
    }

    async fn current(&self, publication: &Publication) -> Result<Option<Current>, Error> {
        let mut db = self.catalog.connection().await?;
        Ok(within(assets::current(&mut db, &publication.repository, &publication.path)).await?)
    }

    /// Receives the body, and publishes it.
    async fn reserve_and_store<E>(
        &self,
        publication: &Publication,
        id: ArtifactId,
        seen: Option<&Current>,
        body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Published, Error> {
        let declared = publication.digest.zip(publication.length);
        if let Some((digest, length)) = declared {
            self.reserve(publication, id, digest, length).await?;
        }
        let sealed = self.receive(publication, id, body).await?;
        let (digest, size) = (sealed.digest(), sealed.size());
        if publication.digest.is_some_and(|declared| declared != digest) {
            return Err(Error::Mismatch);
        }
        if let Some(current) = seen.filter(|current| current.digest == digest && current.size == size) {
            return Ok(Published {
                current: current.clone(),
                created: false,
                body_read: true,
            });
        }
        if declared.is_none() {
            self.reserve(publication, id, digest, size).await?;
        }
        // Received uploads wait here for their turn, however long it takes: refused, all their bytes would be lost.
        let _turn = self.turns.acquire().await.map_err(|_| Error::NotOwner)?;
        let mut session = self.uploads.connection().await?;
        if !within(uploads::lock(&mut session, id)).await? {
            return Err(Error::Locked);
        }
        let seen = seen.map(|current| current.revision);
        let committed = self.link_and_commit(&mut session, publication, sealed, id, seen).await;
        // The lock ends with the session at the latest; one that fails here is not given back to the pool.
        if within(uploads::unlock(&mut session, id)).await.is_err() {
            drop(session.detach());
        }
        match committed? {
            Committed::Added(revision) => {
                let current = Current {
                    revision,
                    artifact: id,
                    size,
                    digest,
                };
                Ok(Published {
                    current,
                    created: true,
                    body_read: true,
                })
            }
            Committed::Held(current) => Ok(Published {
                current,
                created: false,
                body_read: true,
            }),
            Committed::Taken => Err(Error::AlreadyExists),
            Committed::Unnamed => Err(Error::RevisionMismatch),
        }
    }

    /// Writes the body to the staging area while hashing it.
    async fn receive<E>(
        &self,
        publication: &Publication,
        id: ArtifactId,
        mut body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Sealed, Error> {
        let deadline = self.clock.now().after(UPLOAD_DEADLINE);
        let mut staged = self.volume.stage(id, publication.length).await?;
        let mut received = 0;
        loop {
            let left = deadline.since(self.clock.now());
            if left.is_zero() {
                tracing::warn!(code = "upload.deadline");
                return Err(Interruption::Deadline.into());
            }
            // Only waiting for the sender counts; writing and hashing don't.
            let piece = match tokio::time::timeout(left.min(SENDER_IDLE), body.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(None) => break,
                Ok(Some(Err(_))) => return Err(Interruption::Gone.into()),
                Err(_) if left < SENDER_IDLE => continue,
                Err(_) => {
                    tracing::warn!(code = "upload.input_timeout");
                    return Err(Interruption::Idle.into());
                }
            };
            received += piece.len() as u64;
            if received > self.max_object {
                return Err(Error::TooLarge);
            }
            staged.write(piece).await?;
        }
        Ok(staged.finish().await?)
    }

    async fn reserve(&self, publication: &Publication, id: ArtifactId, digest: Digest, size: u64) -> Result<(), Error> {
        let name = publication.path.file_name();
        let reservation = Reservation {
            id,
            repository: &publication.repository,
            owner: &publication.owner,
            name: &name,
            size,
            digest,
        };
        let reserved = within(async {
            let mut db = self.catalog.connection().await?;
            let mut transaction = db.begin().await?;
            let reserved = uploads::reserve(&mut transaction, &reservation, self.capacity).await?;
            transaction.commit().await?;
            Ok(reserved)
        });
        match reserved.await? {
            Reserved::Yes => Ok(()),
            Reserved::OverCapacity => Err(Error::OverCapacity),
        }
    }

    /// Gives the staged file its final name, or another name to a published file of equal bytes, and commits.
    async fn link_and_commit(
        &self,
        session: &mut sqlx::PgConnection,
        publication: &Publication,
        sealed: Sealed,
        id: ArtifactId,
        seen: Option<i32>,
    ) -> Result<Committed, Error> {
        let (digest, size) = (sealed.digest(), sealed.size());
        match within(uploads::with_equal_bytes(session, sealed.digest(), sealed.size())).await? {
            Some(equal) => {
                let stored = sealed.publish_as(equal).await?.stored;
                if matches!(stored, Stored::Apart(Apart::Damaged | Apart::Gone)) {
                    tracing::error!(code = "storage.blob_damaged", artifact = %equal);
                }
            }
            None => drop(sealed.publish().await?),
        }
        let same = |current: &Current| current.digest == digest && current.size == size;
        self.commit(session, publication, id, seen, same).await
    }

    /// Makes the artifact readable and the path hold it. Where somebody was faster with the `same` bytes, or the path had
    /// to be new, nothing is changed.
    async fn commit(
        &self,
        session: &mut sqlx::PgConnection,
        publication: &Publication,
        id: ArtifactId,
        seen: Option<i32>,
        same: impl Fn(&Current) -> bool,
    ) -> Result<Committed, Error> {
        let Publication {
            repository,
            path,
            owner,
            only_new,
            ..
        } = publication;
        let prepared = within(async {
            let mut transaction = session.begin().await?;
            uploads::publish(&mut transaction, id).await?;
            if let Some(revision) = assets::advance(&mut transaction, repository, path, seen, id, owner).await? {
                return Ok((transaction, Committed::Added(revision)));
            }
            let faster = assets::current(&mut transaction, repository, path).await?;
            let committed = match faster.filter(|current| same(current)) {
                _ if *only_new => Committed::Taken,
                Some(current) => Committed::Held(current),
                None => Committed::Unnamed,
            };
            Ok((transaction, committed))
        });
        let (transaction, committed) = prepared.await?;
        if matches!(committed, Committed::Taken | Committed::Held(_)) {
            // Dropped, it is rolled back.
            return Ok(committed);
        }
        self.right.check()?;
        match within(async { Ok(transaction.commit().await?) }).await {
            Ok(()) => Ok(committed),
            // The answer may be lost and the commit done: the database knows.
            Err(error) => match self.published(id).await {
                Some(true) => Ok(committed),
                _ => Err(error.into()),
            },
        }
    }

    async fn published(&self, id: ArtifactId) -> Option<bool> {
        let mut db = self.catalog.connection().await.ok()?;
        let status = within(uploads::status(&mut db, id)).await.ok()?;
        Some(status.as_deref() == Some("available"))
    }

    /// Takes back what a failed publication left. What can't be done now, because the database is away, is tried again
    /// by [`Publish::retry_abandoned`], and at the next start at the latest: a pending upload is readable by nobody.
    async fn give_up(&self, id: ArtifactId) {
        if let Err(error) = super::recover::abandon(&self.catalog, &self.volume, id).await {
            tracing::warn!(
                code = "upload.not_cleaned_up",
                errorName = error.name(),
                sqlstate = error.sqlstate()
            );
            self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
    }

    /// Takes back what could not be taken back when its publication failed. To be called now and then.
    pub async fn retry_abandoned(&self) {
        let ids = std::mem::take(&mut *self.abandoned.lock().unwrap_or_else(PoisonError::into_inner));
        for id in ids {
            self.give_up(id).await;
        }
    }
}
