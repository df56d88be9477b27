use crate::model::failure::{Classify, Kind};
use crate::{catalog, storage};

/// Why a use case failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database.
    #[error("the catalog failed")]
    Catalog(#[from] catalog::Error),
    /// The volume, while writing.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// The volume, while opening a blob.
    #[error(transparent)]
    Open(#[from] storage::OpenError),
    /// This process doesn't own the storage at this moment.
    #[error("this process does not own the storage now")]
    NotOwner,
    /// Another request works on the same upload.
    #[error("the upload is being changed by another request")]
    Locked,
    /// The catalog names a blob that is not on the volume.
    #[error("a published file is missing")]
    Missing,
    /// The request's body ended early.
    #[error("the body ended early")]
    Interrupted(#[from] Interruption),
    /// The bytes have another digest than declared.
    #[error("the bytes received have another SHA-256 than the request declares")]
    Mismatch,
    /// More bytes than one object may have.
    #[error("the object is larger than this installation allows")]
    TooLarge,
    /// The installation's capacity is used up.
    #[error("the installation's capacity is used up")]
    OverCapacity,
    /// The path must be new and is not.
    #[error("the path is there already")]
    AlreadyExists,
    /// Somebody changed the path meanwhile.
    #[error("the path was changed by somebody else meanwhile")]
    RevisionMismatch,
}

/// How a body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interruption {
    /// The connection broke.
    #[error("the client went away")]
    Gone,
    /// Nothing came for too long.
    #[error("the client sent nothing for too long")]
    Idle,
    /// It took too long in all.
    #[error("the upload took too long")]
    Deadline,
}

impl Classify for Error {
    fn kind(&self) -> Kind {
        match self {
            Self::Catalog(error) => error.kind(),
            Self::Storage(error) => error.kind(),
            Self::Open(error) => error.kind(),
            Self::NotOwner | Self::Missing | Self::Interrupted(_) => Kind::Unavailable,
            Self::Locked => Kind::Busy,
            Self::Mismatch => Kind::IntegrityMismatch,
            Self::TooLarge => Kind::InvalidInput,
            Self::OverCapacity => Kind::CapacityExceeded,
            Self::AlreadyExists | Self::RevisionMismatch => Kind::Conflict,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Catalog(error) => error.reason(),
            Self::Storage(error) => error.reason(),
            Self::Open(error) => error.reason(),
            Self::TooLarge => Some("body_too_large"),
            Self::OverCapacity => Some("catalog_limit"),
            Self::AlreadyExists => Some("already_exists"),
            Self::RevisionMismatch => Some("revision_mismatch"),
            Self::NotOwner | Self::Locked | Self::Missing | Self::Interrupted(_) | Self::Mismatch => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Catalog(error) => error.name(),
            Self::Storage(error) => error.name(),
            Self::Open(error) => error.name(),
            Self::NotOwner => "not_owner",
            Self::Locked => "upload_locked",
            Self::Missing => "file_missing",
            Self::Interrupted(_) => "body_interrupted",
            Self::Mismatch => "digest_mismatch",
            Self::TooLarge => "object_too_large",
            Self::OverCapacity => "over_capacity",
            Self::AlreadyExists => "already_exists",
            Self::RevisionMismatch => "revision_mismatch",
        }
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Self::Storage(error) => error.errno(),
            Self::Open(error) => error.errno(),
            _ => None,
        }
    }

    fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Catalog(error) => Classify::sqlstate(error),
            _ => None,
        }
    }
}
