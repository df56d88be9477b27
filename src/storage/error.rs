//! What goes wrong on the volume, and what kind of failure that is.
//!
//! No text names a path: texts reach operators as reasons of a refused start, and callers by their kind only.

use std::io;

use crate::model::failure::{Classify, Kind, classify_io};

/// Why the data directory can't be used (docs/spec/leases.md 5.6, steps 2 and 4).
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file system on which the promises of docs/spec/storage.md were never tried.
    #[error(
        "ARKVORY_DATA_DIR lies on {0}, which is not certified; use a local file system, or set ARKVORY_ALLOW_UNCERTIFIED_FS=true at your own risk"
    )]
    Uncertified(&'static str),
    /// A reader found no `blobs` folder. It has created nothing.
    #[error("ARKVORY_DATA_DIR has no blobs folder: start the writer first, or mount the writer's volume")]
    NoBlobs,
    /// A reader found no `storage-id`.
    #[error("ARKVORY_DATA_DIR has no storage-id: start the writer first, or mount the writer's volume")]
    NoIdentity,
    /// The `storage-id` is not one UUID version 4.
    #[error("storage-id in ARKVORY_DATA_DIR is damaged: it must hold one UUID version 4")]
    BadIdentity,
    /// A second descriptor got an exclusive lock on a file that was locked, or locking failed altogether.
    #[error("file locks don't work in ARKVORY_DATA_DIR: readers could not protect the files that they send")]
    NoLocks,
    /// A staged file can't be linked to its final name.
    #[error("ARKVORY_DATA_DIR has no hard links between staging and blobs: both must lie on one mount")]
    NoLinks(#[source] io::Error),
    /// Any other failed system call.
    #[error("ARKVORY_DATA_DIR can't be used")]
    Io(#[from] io::Error),
}

impl Classify for StartError {
    fn kind(&self) -> Kind {
        match self {
            Self::Uncertified(_) | Self::NoLocks | Self::NoLinks(_) => Kind::InvalidInput,
            Self::NoBlobs | Self::NoIdentity => Kind::Unavailable,
            Self::BadIdentity => Kind::Conflict,
            Self::Io(error) => classify_io(error).0,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Io(error) => classify_io(error).1,
            _ => None,
        }
    }
}

/// Why a change of the volume failed (docs/spec/storage.md 7.2).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The volume has no room for this file beside the others in flight and the reserve, or is full.
    #[error("the volume has no room")]
    Full,
    /// More bytes came than were declared.
    #[error("more bytes than declared")]
    TooLong,
    /// Fewer bytes came than were declared.
    #[error("fewer bytes than declared")]
    TooShort,
    /// The final name leads to other bytes. They are left alone.
    #[error("other bytes have this name")]
    Occupied,
    /// An earlier write failed, or was not waited for.
    #[error("an earlier write was not completed")]
    Broken,
    /// A reader's volume is never changed.
    #[error("the volume was opened for reading")]
    ReadOnly,
    /// Any other failed system call.
    #[error("a change of the volume failed")]
    Io(#[source] io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match classify_io(&error) {
            (Kind::CapacityExceeded, _) => Self::Full,
            _ => Self::Io(error),
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> Kind {
        match self {
            Self::Full => Kind::CapacityExceeded,
            Self::TooLong | Self::TooShort | Self::Occupied => Kind::IntegrityMismatch,
            Self::Broken => Kind::Internal,
            Self::ReadOnly => Kind::ReadOnly,
            Self::Io(error) => classify_io(error).0,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Full => Some("storage_full"),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Io(_) => "file_write",
            _ => self.kind().code(),
        }
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Self::Io(error) => error.raw_os_error(),
            _ => None,
        }
    }
}

/// Why a file can't be read (docs/spec/storage.md 7.4).
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No such file. The caller looks the artifact up once more: gone is 404, still published is this error's 503.
    #[error("no such file")]
    Absent,
    /// The collector has held the file for 100 ms.
    #[error("the file is being reclaimed")]
    Reclaiming,
    /// The file is longer or shorter than it must be.
    #[error("the file is {found} bytes long instead of {expected}")]
    WrongLength {
        /// What the caller said, in bytes.
        expected: u64,
        /// What the file has, in bytes.
        found: u64,
    },
    /// Any other failed system call.
    #[error("opening a file failed")]
    Io(#[from] io::Error),
}

impl Classify for OpenError {
    fn kind(&self) -> Kind {
        match self {
            Self::Absent | Self::WrongLength { .. } => Kind::Unavailable,
            Self::Reclaiming => Kind::Busy,
            Self::Io(error) => classify_io(error).0,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Absent => "file_missing",
            Self::Reclaiming => "file_reclaiming",
            Self::WrongLength { .. } => "file_length",
            Self::Io(_) => "file_open",
        }
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Self::Io(error) => error.raw_os_error(),
            _ => None,
        }
    }
}

/// Why a file's bytes end early. Whoever sends them breaks the connection (docs/spec/storage.md 7.3).
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file ended before the promised count.
    #[error("the file became shorter while it was read")]
    Short,
    /// A failed system call.
    #[error("reading a file failed")]
    Io(#[source] io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Short,
            _ => Self::Io(error),
        }
    }
}

impl Classify for ReadError {
    fn kind(&self) -> Kind {
        match self {
            Self::Short => Kind::IntegrityMismatch,
            Self::Io(error) => classify_io(error).0,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Short => "file_short",
            Self::Io(_) => "file_read",
        }
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Self::Short => None,
            Self::Io(error) => error.raw_os_error(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn out_of_space_in_both_forms() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            let error = Error::from(io::Error::from(errno));
            assert_eq!(error.kind(), Kind::CapacityExceeded, "{errno}");
            assert_eq!(error.reason(), Some("storage_full"), "{errno}");
        }
        assert_eq!(Error::from(io::Error::from(Errno::IO)).kind(), Kind::Internal);
    }

    #[test]
    fn the_refusal_names_what_to_change() {
        let text = StartError::Uncertified("NFS").to_string();
        assert!(text.contains("ARKVORY_DATA_DIR") && text.contains("ARKVORY_ALLOW_UNCERTIFIED_FS"));
    }
}
