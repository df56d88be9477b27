//! Settings that are files, or are kept in files.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use secrecy::SecretString;

/// The largest file that holds one secret, in bytes.
const LARGEST_SECRET: u64 = 16 * 1024;

/// Why a secret can't be taken from its file; never tells what is in it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecretFile {
    /// The system refuses, with this error.
    #[error("the path of a readable file ({0})")]
    Unreadable(Cow<'static, str>),
    /// Not one short text.
    #[error("the path of a file with one line of text in UTF-8, at most 16 KiB")]
    NoSecret,
}

/// Any text but the empty one as a path.
pub(super) fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// The secret in the file at `path`, without the newline at its end.
pub(super) fn secret(path: &str) -> Result<SecretString, BadSecretFile> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_SECRET + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > LARGEST_SECRET => return Err(BadSecretFile::NoSecret),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(BadSecretFile::NoSecret),
        Err(error) => return Err(BadSecretFile::Unreadable(errno_name(&error))),
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() || line.contains(char::is_control) {
        return Err(BadSecretFile::NoSecret);
    }
    Ok(line.into())
}

/// The name of a failed system call's error, such as `ENOENT`; for texts and for the log field `errno`.
pub fn errno_name(error: &io::Error) -> Cow<'static, str> {
    use rustix::io::Errno as E;
    let Some(errno) = E::from_io_error(error) else {
        return Cow::Borrowed("unknown");
    };
    Cow::Borrowed(match errno {
        E::ACCESS => "EACCES",
        E::AGAIN => "EAGAIN",
        E::BADF => "EBADF",
        E::DQUOT => "EDQUOT",
        E::EXIST => "EEXIST",
        E::FBIG => "EFBIG",
        E::INVAL => "EINVAL",
        E::IO => "EIO",
        E::ISDIR => "EISDIR",
        E::LOOP => "ELOOP",
        E::MFILE => "EMFILE",
        E::MLINK => "EMLINK",
        E::NAMETOOLONG => "ENAMETOOLONG",
        E::NFILE => "ENFILE",
        E::NOENT => "ENOENT",
        E::NOMEM => "ENOMEM",
        E::NOSPC => "ENOSPC",
        E::NOTDIR => "ENOTDIR",
        E::NOTEMPTY => "ENOTEMPTY",
        E::OPNOTSUPP => "EOPNOTSUPP",
        E::PERM => "EPERM",
        E::PIPE => "EPIPE",
        E::ROFS => "EROFS",
        E::STALE => "ESTALE",
        E::XDEV => "EXDEV",
        E::ADDRINUSE => "EADDRINUSE",
        E::ADDRNOTAVAIL => "EADDRNOTAVAIL",
        E::CONNABORTED => "ECONNABORTED",
        E::CONNREFUSED => "ECONNREFUSED",
        E::CONNRESET => "ECONNRESET",
        E::HOSTUNREACH => "EHOSTUNREACH",
        E::NETUNREACH => "ENETUNREACH",
        E::TIMEDOUT => "ETIMEDOUT",
        other => return Cow::Owned(format!("errno {}", other.raw_os_error())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn of(content: &[u8]) -> Result<String, BadSecretFile> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, content).unwrap();
        secret(path.to_str().unwrap()).map(|secret| secret.expose_secret().to_owned())
    }

    #[test]
    fn one_line_is_a_secret() {
        for good in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            assert_eq!(of(good.as_bytes()), Ok("s3cret".into()), "{good:?}");
        }
        for bad in [&b""[..], b"\n", b"two\nlines", b"\xff", &vec![b'x'; 16 * 1024 + 1]] {
            assert_eq!(of(bad), Err(BadSecretFile::NoSecret));
        }
    }

    #[test]
    fn an_unreadable_file_tells_why() {
        let why = |path| secret(path).map(|_| ()).unwrap_err().to_string();
        assert_eq!(why("/nowhere/at/all"), "the path of a readable file (ENOENT)");
        assert_eq!(why("/"), "the path of a readable file (EISDIR)");
    }
}
