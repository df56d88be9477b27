//! What kind of failure something is. Every error type says its kind; only `http` turns kinds into status codes.

/// The closed set of codes of docs/spec/errors.md 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The caller's value is not acceptable.
    InvalidInput,
    /// A change was asked of a reader.
    ReadOnly,
    /// No usable credential.
    Unauthorized,
    /// The credential lacks the right.
    Forbidden,
    /// No such thing, or not visible to the caller.
    NotFound,
    /// The state doesn't allow it.
    Conflict,
    /// Bytes are not what was declared.
    IntegrityMismatch,
    /// Too many attempts.
    RateLimited,
    /// Not now; try again soon.
    Busy,
    /// Something that is needed is away.
    Unavailable,
    /// A limit of space or number is reached.
    CapacityExceeded,
    /// A defect of this program.
    Internal,
}

impl Kind {
    /// The `code` of the error body.
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::ReadOnly => "read_only",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::IntegrityMismatch => "integrity_mismatch",
            Self::RateLimited => "rate_limited",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::CapacityExceeded => "capacity_exceeded",
            Self::Internal => "internal",
        }
    }
}

/// Says which [`Kind`] an error is.
pub trait Classify: std::error::Error {
    /// Its kind.
    fn kind(&self) -> Kind;

    /// The `reason` of docs/spec/errors.md 3.2, where one is defined.
    fn reason(&self) -> Option<&'static str> {
        None
    }

    /// A word for the log line, which never has the error's text (docs/spec/errors.md 3.3).
    fn name(&self) -> &'static str {
        self.kind().code()
    }

    /// The number of the failed system call's error, for the log line.
    fn errno(&self) -> Option<i32> {
        None
    }

    /// The SQLSTATE behind the error, for the log line.
    fn sqlstate(&self) -> Option<String> {
        None
    }
}

/// Kind and reason of a failed system call (docs/spec/errors.md 3.3).
pub fn classify_io(error: &std::io::Error) -> (Kind, Option<&'static str>) {
    use std::io::ErrorKind as E;
    match error.kind() {
        E::StorageFull | E::QuotaExceeded => (Kind::CapacityExceeded, Some("storage_full")),
        E::ConnectionRefused | E::ConnectionReset | E::ConnectionAborted | E::TimedOut | E::BrokenPipe => {
            (Kind::Unavailable, None)
        }
        _ => (Kind::Internal, None),
    }
}
