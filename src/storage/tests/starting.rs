//! Opening a directory: the writer makes it, a reader only takes what is there (docs/spec/leases.md 5.6).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn the_writer_makes_all_and_finds_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("deep/data");
    let volume = Volume::open_for_writing(&root, 0, false).unwrap();
    let paths: Vec<_> = ["blobs", "parts", "staging", "storage-id"].map(PathBuf::from).into();
    assert_eq!(below(&root), paths, "the proof leaves nothing");
    let id = volume.identity();
    assert_eq!(Volume::open_for_writing(&root, 0, false).unwrap().identity(), id);
    assert_eq!(Volume::open_for_reading(&root, false).unwrap().identity(), id);
    assert!(volume.healthy() && volume.writable() && volume.free_bytes().unwrap() > 0);
}

#[test]
fn two_writers_at_once_agree_on_the_identity() {
    for _ in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let open = || Volume::open_for_writing(dir.path(), 0, false).unwrap().identity();
        let (one, two) = std::thread::scope(|scope| {
            let other = scope.spawn(open);
            (open(), other.join().unwrap())
        });
        assert_eq!(one, two);
    }
}

#[test]
fn a_reader_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Volume::open_for_reading(dir.path(), false),
        Err(StartError::NoBlobs)
    ));
    assert!(below(dir.path()).is_empty());
    fs::create_dir(dir.path().join("blobs")).unwrap();
    assert!(matches!(
        Volume::open_for_reading(dir.path(), false),
        Err(StartError::NoIdentity)
    ));
    assert_eq!(below(dir.path()), [PathBuf::from("blobs")]);
    let missing = dir.path().join("missing");
    assert!(matches!(
        Volume::open_for_reading(&missing, false),
        Err(StartError::NoBlobs)
    ));
    assert!(!missing.exists());
}

#[tokio::test]
async fn a_reader_changes_nothing() {
    let (dir, volume) = writer();
    let id = ArtifactId::random();
    publish(&volume, id, b"bytes").await.unwrap();
    let reader = Volume::open_for_reading(dir.path(), false).unwrap();
    let before = below(dir.path());
    assert!(matches!(reader.stage(id, None).await.err(), Some(Error::ReadOnly)));
    assert!(matches!(reader.remove_blob(id).await, Err(Error::ReadOnly)));
    assert!(matches!(reader.discard_staging(id).await, Err(Error::ReadOnly)));
    assert!(matches!(reader.recover(id).await, Err(Error::ReadOnly)));
    assert!(matches!(reader.sweep_staging(), Err(Error::ReadOnly)));
    assert!(!reader.writable() && reader.healthy());
    assert_eq!(read(&reader, id, 5).await, b"bytes");
    assert_eq!(below(dir.path()), before);
}

#[test]
fn a_directory_that_went_away_is_noticed() {
    let (dir, volume) = writer();
    let blobs = dir.path().join("blobs");
    fs::remove_dir(&blobs).unwrap();
    assert!(!volume.healthy());
    // A folder of that name is not enough: the descriptor still leads to the old one.
    fs::create_dir(&blobs).unwrap();
    assert!(!volume.healthy());
}

#[test]
fn folders_are_for_the_owner_only() {
    let (dir, _volume) = writer();
    for folder in ["blobs", "staging", "parts"] {
        let mode = fs::metadata(dir.path().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
}

#[tokio::test]
async fn the_sweep_removes_what_was_left_and_says_whose() {
    let (dir, volume) = writer();
    let (one, two) = (ArtifactId::random(), ArtifactId::random());
    let staging = dir.path().join("staging");
    for id in [one, two] {
        fs::create_dir(staging.join(id.to_string())).unwrap();
        fs::write(staging.join(id.to_string()).join("left"), "bytes").unwrap();
    }
    fs::create_dir_all(staging.join("not-an-id/deep")).unwrap();
    fs::write(staging.join("file"), "bytes").unwrap();
    fs::write(dir.path().join(".identity-left"), "").unwrap();
    let outside = dir.path().join("outside");
    fs::write(&outside, "bytes").unwrap();
    std::os::unix::fs::symlink(&outside, staging.join("link")).unwrap();
    let mut ids = volume.sweep_staging().unwrap();
    ids.sort();
    let mut wanted = vec![one, two];
    wanted.sort();
    assert_eq!(ids, wanted);
    assert!(below(&staging).is_empty());
    assert!(!dir.path().join(".identity-left").exists() && outside.exists());
    assert!(volume.sweep_staging().unwrap().is_empty());
}
