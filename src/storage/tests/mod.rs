//! What the volume promises, tried on real file systems.

mod collecting;
mod crash;
mod full_disk;
mod publishing;
mod reading;
mod starting;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::model::id::ArtifactId;
use crate::model::range::ByteRange;

/// A writer's volume in a directory of its own.
fn writer() -> (TempDir, Volume) {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::open_for_writing(dir.path(), 0, false).unwrap();
    (dir, volume)
}

/// Bytes that repeat nowhere near a power of two.
fn pattern(size: usize) -> Vec<u8> {
    (0..size)
        .map(|i| u8::try_from(i % 251).unwrap() ^ u8::try_from(i / 251 % 241).unwrap())
        .collect()
}

async fn sealed(volume: &Volume, id: ArtifactId, content: &[u8]) -> Result<Sealed, Error> {
    let mut staged = volume.stage(id, Some(content.len() as u64)).await?;
    for piece in content.chunks(8 << 10) {
        staged.write(Bytes::copy_from_slice(piece)).await?;
    }
    staged.finish().await
}

async fn publish(volume: &Volume, id: ArtifactId, content: &[u8]) -> Result<Published, Error> {
    sealed(volume, id, content).await?.publish().await
}

async fn read(volume: &Volume, id: ArtifactId, size: usize) -> Vec<u8> {
    let blob = volume.open(id, size as u64).await.unwrap();
    let mut reader = blob.reader(ByteRange::whole(blob.size()));
    let mut content = Vec::new();
    while let Some(bytes) = reader.next(1 << 20).await.unwrap() {
        content.extend_from_slice(&bytes);
    }
    content
}

/// All files and folders below `path`, relative to it.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            found.push(entry.path().strip_prefix(path).unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn inode(dir: &Path, id: ArtifactId) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(dir.join("blobs").join(id.to_string())).unwrap();
    (found.ino(), found.nlink())
}
