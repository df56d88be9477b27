//! Whether a directory can keep the promises of docs/spec/storage.md: a file system that is known not to is refused, and
//! what the others say is tried.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock, statfs};
use rustix::io::Errno;
use uuid::Uuid;

use super::durable::{self, Disk};
use super::error::StartError;
use super::layout::Layout;

/// Refuses a directory on a network file system or in user space; what doesn't exist yet is judged by its parent.
pub(super) fn refuse_uncertified(path: &Path) -> Result<(), StartError> {
    let mut path = path;
    let kind = loop {
        let text = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        match (statfs(text), path.parent()) {
            (Ok(found), _) => break found.f_type,
            (Err(Errno::NOENT), Some(parent)) => path = parent,
            (Err(error), _) => return Err(io::Error::from(error).into()),
        }
    };
    // Magic numbers have 32 bits; some platforms store them with a sign.
    let magic = u32::try_from(i128::from(kind) & 0xffff_ffff).unwrap_or(u32::MAX);
    uncertified(magic).map_or(Ok(()), |name| Err(StartError::Uncertified(name)))
}

/// The name of a file system that is not certified, by its magic number (statfs(2)).
fn uncertified(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9P"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        _ => None,
    }
}

/// Proves in the directory itself that readers can keep the collector off a file, and that a staged file can get its
/// final name.
pub(super) fn prove(disk: &Disk, layout: &Layout) -> Result<(), StartError> {
    let name = format!(".probe-{}", Uuid::new_v4());
    let (from, to) = (layout.staging().join(&name), layout.blobs().join(&name));
    let file = disk.make_file(&from)?;
    let proved = prove_locks(&file, &from).and_then(|()| prove_links(disk, &file, &from, &to));
    let removed = disk.unlink(&from);
    proved?;
    Ok(removed?)
}

fn prove_locks(held: &File, path: &Path) -> Result<(), StartError> {
    let other = durable::open_file(path)?;
    let shared = flock(held, FlockOperation::NonBlockingLockShared);
    let refused = flock(&other, FlockOperation::NonBlockingLockExclusive);
    let freed = flock(held, FlockOperation::Unlock);
    let exclusive = flock(&other, FlockOperation::NonBlockingLockExclusive);
    match (shared, refused, freed, exclusive) {
        (Ok(()), Err(Errno::WOULDBLOCK), Ok(()), Ok(())) => Ok(()),
        _ => Err(StartError::NoLocks),
    }
}

fn prove_links(disk: &Disk, file: &File, from: &Path, to: &Path) -> Result<(), StartError> {
    let linked = disk.publish(from, to);
    let names = file.metadata()?.nlink();
    if names > 1 {
        disk.unlink_durably(to)?;
    }
    linked.map_err(StartError::NoLinks)?;
    if names == 2 {
        Ok(())
    } else {
        Err(StartError::NoLinks(io::Error::other("the link count is wrong")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_magic_number() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "SMB"),
            (0xfe53_4d42, "SMB"),
            (0x6573_5546, "FUSE"),
        ] {
            assert_eq!(uncertified(magic), Some(name));
        }
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(uncertified(local), None, "{local:x}");
        }
    }

    #[test]
    fn what_does_not_exist_yet_is_judged_by_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        refuse_uncertified(&dir.path().join("a/b/c")).unwrap();
        refuse_uncertified(Path::new("no-such-folder")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_that_holds_nobody_off_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let file = File::create(&one).unwrap();
        File::create(&two).unwrap();
        prove_locks(&file, &one).unwrap();
        // Another file stands in for a file system without locks: nothing is refused.
        assert!(matches!(prove_locks(&file, &two), Err(StartError::NoLocks)));
    }
}
