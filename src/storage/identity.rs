//! `storage-id`: ties a data directory to its database (docs/spec/storage.md 7.1). It proves nothing about the bytes.

use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use uuid::{Uuid, Variant};

use super::durable::{self, Disk};
use super::error::StartError;

const NAME: &str = "storage-id";
/// How the names of half-made identities begin.
pub(super) const TEMPORARY: &str = ".identity-";

/// The identity of the directory, if it has one.
pub(super) fn read(root: &Path) -> Result<Option<Uuid>, StartError> {
    let file = match durable::open_file(&root.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut text = Vec::new();
    file.take(64).read_to_end(&mut text)?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    match Uuid::try_parse_ascii(text) {
        Ok(id) if text.len() == 36 && id.get_version_num() == 4 && id.get_variant() == Variant::RFC4122 => Ok(Some(id)),
        _ => Err(StartError::BadIdentity),
    }
}

/// The identity of the directory; a new one if it has none. Of several processes that start at once, the first gives it.
pub(super) fn obtain(disk: &Disk, root: &Path) -> Result<Uuid, StartError> {
    if let Some(id) = read(root)? {
        // Whoever made it may have died before this.
        disk.sync_dir(root)?;
        return Ok(id);
    }
    let temporary = root.join(format!("{TEMPORARY}{}", Uuid::new_v4()));
    let made = make(disk, &temporary, &root.join(NAME));
    let removed = disk.unlink(&temporary);
    made?;
    removed?;
    read(root)?.ok_or(StartError::NoIdentity)
}

fn make(disk: &Disk, temporary: &Path, name: &Path) -> io::Result<()> {
    let file = disk.make_file(temporary)?;
    disk.write(&file, temporary, &[Bytes::from(Uuid::new_v4().to_string())])?;
    disk.sync_file(&file, temporary)?;
    disk.publish(temporary, name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), None);
        let id = obtain(&Disk::default(), dir.path()).unwrap();
        assert_eq!(obtain(&Disk::default(), dir.path()).unwrap(), id);
        assert_eq!(read(dir.path()).unwrap(), Some(id));
        let path = dir.path().join(NAME);
        assert_eq!(fs::read_to_string(&path).unwrap(), id.to_string());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_at_once_one_wins() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let start = std::sync::Barrier::new(4);
            let ids = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            obtain(&Disk::default(), dir.path()).unwrap()
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect::<Vec<_>>()
            });
            assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn damaged() {
        let dir = tempfile::tempdir().unwrap();
        let good = Uuid::new_v4().to_string();
        fs::write(dir.path().join(NAME), format!("{good}\n")).unwrap();
        assert_eq!(read(dir.path()).unwrap().unwrap().to_string(), good);
        for bad in [
            "",
            "x",
            &good[..35],
            &format!("{good}{good}"),
            "0b4f7a52-6a0f-1c1e-9d3a-2f4f6f1f0a11",
        ] {
            fs::write(dir.path().join(NAME), bad).unwrap();
            assert!(matches!(read(dir.path()), Err(StartError::BadIdentity)), "{bad}");
            assert!(matches!(
                obtain(&Disk::default(), dir.path()),
                Err(StartError::BadIdentity)
            ));
        }
    }
}
