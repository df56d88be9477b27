//! The only place of the program that links, syncs and unlinks.
//!
//! A file's bytes are synced before it gets a name, and the directory after (docs/spec/storage.md 7.2): a name that
//! survives a power cut always leads to all of its bytes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;

use super::steps::{Step, Steps};

/// How many pieces the kernel takes in one call (`IOV_MAX`).
pub(super) const MOST_PIECES: usize = 1024;

/// Changes the volume, each change a [`Step`].
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    steps: Steps,
}

/// What became of a name that may exist only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linked {
    /// It is new.
    New,
    /// Somebody made it before; it is untouched.
    Existed,
}

impl Disk {
    pub(super) fn new(steps: Steps) -> Self {
        Self { steps }
    }

    /// Makes a directory (0700) unless it exists.
    pub(super) fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.steps.before(Step::MakeDirectory, path)?;
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    /// Makes a directory unless it exists, its parents too, and makes their names durable.
    pub(super) fn make_dir_durably(&self, path: &Path) -> io::Result<()> {
        let parent = parent(path);
        if !parent.exists() {
            self.make_dir_durably(parent)?;
        }
        self.make_dir(path)?;
        self.sync_dir(parent)
    }

    /// Makes a file (0600) that must not exist yet, open for reading and writing.
    pub(super) fn make_file(&self, path: &Path) -> io::Result<File> {
        self.steps.before(Step::MakeFile, path)?;
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    }

    /// Writes all of `pieces` (at most [`MOST_PIECES`]) at the file's position, without joining them first.
    pub(super) fn write(&self, mut file: &File, path: &Path, pieces: &[Bytes]) -> io::Result<()> {
        self.steps.before(Step::Write, path)?;
        let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = slices.as_mut_slice();
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the bytes of a file durable.
    pub(super) fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        self.steps.before(Step::SyncFile, path)?;
        file.sync_all()
    }

    /// Gives the file at `from` the name `to` as well, if nothing has that name, and makes `to`'s directory durable,
    /// also where somebody else made the name.
    pub(super) fn publish(&self, from: &Path, to: &Path) -> io::Result<Linked> {
        let linked = match self.link(from, to) {
            Ok(()) => Linked::New,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Linked::Existed,
            Err(error) => return Err(error),
        };
        self.sync_dir(parent(to))?;
        Ok(linked)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.steps.before(Step::Link, to)?;
        fs::hard_link(from, to)
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.steps.before(Step::SyncDirectory, path)?;
        File::open(path)?.sync_all()
    }

    /// Takes a name away. A power cut may bring it back.
    pub(super) fn unlink(&self, path: &Path) -> io::Result<()> {
        self.steps.before(Step::Unlink, path)?;
        fs::remove_file(path)
    }

    /// Takes a name away for ever.
    pub(super) fn unlink_durably(&self, path: &Path) -> io::Result<()> {
        self.unlink(path)?;
        self.sync_dir(parent(path))
    }

    /// Takes an empty directory away. A power cut may bring it back.
    pub(super) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.steps.before(Step::RemoveDirectory, path)?;
        fs::remove_dir(path)
    }
}

/// Gives the file at `path` this content and this mode, durably and at once: whoever opens it sees the old content or
/// the new one. Its owner is the caller.
#[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let fresh = path.with_file_name(format!(".{name}.new"));
    // Left by a crash in the middle of this.
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&fresh)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(parent(path))?.sync_all()
}

/// Opens a file for reading; a symbolic link is refused.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(no_follow).open(path)
}

/// The directory that `path` is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for content in ["first", "second, longer"] {
            replace(&path, content.as_bytes(), 0o400).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        fs::write(dir.path().join(".file.new"), "left by a crash").unwrap();
        replace(&path, b"third", 0o400).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn pieces_are_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let disk = Disk::default();
        let file = disk.make_file(&path).unwrap();
        disk.write(&file, &path, &[]).unwrap();
        let pieces: Vec<_> = ["", "ab", "", "cde", ""]
            .iter()
            .map(|text| Bytes::from(*text))
            .collect();
        disk.write(&file, &path, &pieces).unwrap();
        disk.write(&file, &path, &pieces).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abcdeabcde");
    }

    #[test]
    fn a_name_is_given_once() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two, name] = ["one", "two", "name"].map(|name| dir.path().join(name));
        fs::write(&one, "1").unwrap();
        fs::write(&two, "2").unwrap();
        let disk = Disk::default();
        assert_eq!(disk.publish(&one, &name).unwrap(), Linked::New);
        assert_eq!(disk.publish(&two, &name).unwrap(), Linked::Existed);
        assert_eq!(fs::read(&name).unwrap(), b"1");
    }

    #[test]
    fn directories_come_with_their_parents() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        for _ in 0..2 {
            Disk::default().make_dir_durably(&deep).unwrap();
        }
        assert!(deep.is_dir());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(Disk::default().make_dir(&dir.path().join("file")).is_err());
        assert_eq!(parent(Path::new("data")), Path::new("."));
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        assert!(open_file(&dir.path().join("file")).is_ok());
        assert!(open_file(&dir.path().join("link")).is_err());
    }
}
