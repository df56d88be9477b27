//! A volume that is full: a real one of 8 MiB in memory (docs/spec/errors.md 3.3).

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use super::*;
use crate::model::failure::{Classify as _, Kind};

const SIZE: u64 = 8 << 20;

/// A file system of its own, unmounted when dropped.
struct Small(TempDir);

impl Small {
    /// `None`, with the reason told, where this process may not mount.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={SIZE}"), "tmpfs"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(dir)),
            Ok(output) => {
                eprintln!(
                    "skipped: mounting is not permitted: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                None
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("skipped: there is no mount command");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
        assert!(done.unwrap().success() || std::thread::panicking());
    }
}

fn is_full<T>(result: Result<T, Error>) {
    let error = result.err().unwrap();
    assert!(matches!(error, Error::Full), "{error:?}");
    assert_eq!(
        (error.kind(), error.reason()),
        (Kind::CapacityExceeded, Some("storage_full"))
    );
}

/// Writes `size` bytes in pieces; says how far that went.
async fn write(staged: &mut Staged, size: u64) -> Result<(), Error> {
    for _ in 0..size / (64 << 10) {
        staged.write(Bytes::from(pattern(64 << 10))).await?;
    }
    Ok(())
}

/// Nothing is left of what failed.
async fn is_clean(dir: &Small, volume: &Volume, free: u64) {
    for folder in ["staging", "blobs"] {
        assert!(below(&dir.0.path().join(folder)).is_empty());
    }
    // The last write may still be on its way with the descriptor.
    for _ in 0..200 {
        if volume.free_bytes().unwrap() == free {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(volume.free_bytes().unwrap(), free);
    assert_eq!((volume.counts().open_staged, volume.counts().in_flight_bytes), (0, 0));
}

#[tokio::test]
async fn the_disk_says_so() {
    let Some(dir) = Small::mount() else { return };
    let volume = Volume::open_for_writing(dir.0.path(), 0, false).unwrap();
    let free = volume.free_bytes().unwrap();
    // Declared and claimed, but somebody else takes the room meanwhile.
    let mut staged = volume.stage(ArtifactId::random(), Some(6 << 20)).await.unwrap();
    let other = dir.0.path().join("other");
    fs::write(&other, pattern(4 << 20)).unwrap();
    let written = write(&mut staged, 6 << 20).await;
    is_full(match written {
        Ok(()) => staged.finish().await.map(drop),
        failed => {
            drop(staged);
            failed
        }
    });
    fs::remove_file(other).unwrap();
    is_clean(&dir, &volume, free).await;
    // Afterwards it works.
    publish(&volume, ArtifactId::random(), &pattern(6 << 20)).await.unwrap();
}

#[tokio::test]
async fn a_size_that_is_unknown() {
    let Some(dir) = Small::mount() else { return };
    let volume = Volume::open_for_writing(dir.0.path(), 0, false).unwrap();
    let free = volume.free_bytes().unwrap();
    let mut staged = volume.stage(ArtifactId::random(), None).await.unwrap();
    is_full(write(&mut staged, 16 << 20).await);
    drop(staged);
    is_clean(&dir, &volume, free).await;
}

#[tokio::test]
async fn claims_are_counted_together() {
    let Some(dir) = Small::mount() else { return };
    let volume = Volume::open_for_writing(dir.0.path(), 0, false).unwrap();
    let free = volume.free_bytes().unwrap();
    is_full(volume.stage(ArtifactId::random(), Some(9 << 20)).await);
    let mut first = volume.stage(ArtifactId::random(), Some(5 << 20)).await.unwrap();
    is_full(volume.stage(ArtifactId::random(), Some(5 << 20)).await);
    write(&mut first, 5 << 20).await.unwrap();
    let sealed = first.finish().await.unwrap();
    assert_eq!(
        volume.counts().in_flight_bytes,
        0,
        "what is written is counted by the disk"
    );
    volume.stage(ArtifactId::random(), Some(2 << 20)).await.unwrap();
    is_full(volume.stage(ArtifactId::random(), Some(5 << 20)).await);
    drop(sealed);
    is_clean(&dir, &volume, free).await;
}

#[tokio::test]
async fn the_reserve_answers_first() {
    let Some(dir) = Small::mount() else { return };
    let volume = Volume::open_for_writing(dir.0.path(), 4 << 20, false).unwrap();
    let free = volume.free_bytes().unwrap();
    assert!(volume.writable());
    is_full(volume.stage(ArtifactId::random(), Some(5 << 20)).await);
    let mut staged = volume.stage(ArtifactId::random(), None).await.unwrap();
    is_full(write(&mut staged, 16 << 20).await);
    assert!(volume.free_bytes().unwrap() >= 4 << 20, "the reserve is untouched");
    drop(staged);
    is_clean(&dir, &volume, free).await;
    let other = dir.0.path().join("other");
    fs::write(&other, pattern(5 << 20)).unwrap();
    assert!(!volume.writable() && volume.healthy());
    is_full(volume.stage(ArtifactId::random(), Some(0)).await);
    fs::remove_file(other).unwrap();
}

#[tokio::test]
async fn a_read_only_mount_is_enough_for_a_reader() {
    let Some(dir) = Small::mount() else { return };
    let id = ArtifactId::random();
    let volume = Volume::open_for_writing(dir.0.path(), 0, false).unwrap();
    publish(&volume, id, b"bytes").await.unwrap();
    drop(volume);
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(dir.0.path())
        .status();
    assert!(remounted.unwrap().success());
    assert!(Volume::open_for_writing(dir.0.path(), 0, false).is_err());
    let volume = Volume::open_for_reading(dir.0.path(), false).unwrap();
    assert!(volume.healthy());
    assert_eq!(read(&volume, id, 5).await, b"bytes");
}

#[tokio::test]
async fn reading_where_the_fast_way_is_not_supported() {
    let Some(dir) = Small::mount() else { return };
    let volume = Volume::open_for_writing(dir.0.path(), 0, false).unwrap();
    let (id, content) = (ArtifactId::random(), pattern(3_000_000));
    publish(&volume, id, &content).await.unwrap();
    assert!(read(&volume, id, content.len()).await == content);
    assert_eq!(volume.remove_blob(id).await.unwrap(), Removal::Removed);
}
