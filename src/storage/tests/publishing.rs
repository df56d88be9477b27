//! Writing and publishing (docs/spec/storage.md 7.2).

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::model::digest::Digest;

#[tokio::test]
async fn bytes_come_back_as_they_went_in() {
    let (dir, volume) = writer();
    for size in [0, 1, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_500_000] {
        let (id, content) = (ArtifactId::random(), pattern(size));
        let published = publish(&volume, id, &content).await.unwrap();
        let wanted = Published {
            size: size as u64,
            digest: Digest::of(&content),
            stored: Stored::Own,
        };
        assert_eq!(published, wanted);
        assert_eq!(read(&volume, id, size).await, content);
        let path = dir.path().join("blobs").join(id.to_string());
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(below(&dir.path().join("staging")).is_empty());
    }
}

#[tokio::test]
async fn pieces_of_any_size() {
    let (_dir, volume) = writer();
    let content = pattern(2_600_000);
    let (one, many) = (ArtifactId::random(), ArtifactId::random());
    let mut staged = volume.stage(one, None).await.unwrap();
    staged.write(Bytes::from(content.clone())).await.unwrap();
    let sealed = staged.finish().await.unwrap();
    assert_eq!((sealed.size(), sealed.digest()), (2_600_000, Digest::of(&content)));
    sealed.publish().await.unwrap();
    let mut staged = volume.stage(many, None).await.unwrap();
    for piece in content[..5000].chunks(1).chain(content[5000..].chunks(7777)) {
        staged.write(Bytes::copy_from_slice(piece)).await.unwrap();
        staged.write(Bytes::new()).await.unwrap();
    }
    staged.finish().await.unwrap().publish().await.unwrap();
    assert_eq!(read(&volume, one, content.len()).await, content);
    assert_eq!(read(&volume, many, content.len()).await, content);
}

#[tokio::test]
async fn neither_more_nor_fewer_than_declared() {
    let (dir, volume) = writer();
    let id = ArtifactId::random();
    let mut staged = volume.stage(id, Some(3)).await.unwrap();
    staged.write(Bytes::from_static(b"abc")).await.unwrap();
    assert!(matches!(
        staged.write(Bytes::from_static(b"d")).await,
        Err(Error::TooLong)
    ));
    assert!(
        matches!(staged.finish().await.err(), Some(Error::Broken)),
        "the error was not heeded"
    );
    let mut staged = volume.stage(id, Some(3)).await.unwrap();
    staged.write(Bytes::from_static(b"ab")).await.unwrap();
    assert!(matches!(staged.finish().await.err(), Some(Error::TooShort)));
    assert!(below(&dir.path().join("staging")).is_empty());
    assert!(below(&dir.path().join("blobs")).is_empty());
    assert_eq!(volume.counts().in_flight_bytes, 0);
}

#[tokio::test]
async fn what_is_dropped_is_removed() {
    let (dir, volume) = writer();
    let id = ArtifactId::random();
    let mut staged = volume.stage(id, Some(5_000_000)).await.unwrap();
    staged.write(Bytes::from(pattern(2_500_000))).await.unwrap();
    assert_eq!(below(&dir.path().join("staging")).len(), 2);
    assert_eq!(volume.counts().open_staged, 1);
    drop(staged);
    assert!(below(&dir.path().join("staging")).is_empty());
    assert_eq!(volume.counts().open_staged, 0);
    drop(sealed(&volume, id, b"bytes").await.unwrap());
    assert!(below(&dir.path().join("staging")).is_empty());
    // The claim goes with the last write, which may still be on its way.
    while volume.counts().in_flight_bytes > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn discarding_takes_only_what_belongs_to_the_upload() {
    let (dir, volume) = writer();
    let (one, two) = (ArtifactId::random(), ArtifactId::random());
    let _first = volume.stage(one, None).await.unwrap();
    let _second = volume.stage(one, None).await.unwrap();
    let _other = volume.stage(two, None).await.unwrap();
    volume.discard_staging(one).await.unwrap();
    volume.discard_staging(one).await.unwrap();
    let left = below(&dir.path().join("staging"));
    assert_eq!(left.len(), 2);
    assert_eq!(left[0], PathBuf::from(two.to_string()));
}

#[tokio::test]
async fn a_name_that_exists_is_verified_and_never_changed() {
    let (dir, volume) = writer();
    let id = ArtifactId::random();
    publish(&volume, id, b"bytes").await.unwrap();
    let before = inode(dir.path(), id);
    assert_eq!(publish(&volume, id, b"bytes").await.unwrap().stored, Stored::Found);
    for other in [b"bytez".as_slice(), b"byte", b""] {
        assert!(matches!(publish(&volume, id, other).await, Err(Error::Occupied)));
    }
    assert_eq!(inode(dir.path(), id), before);
    assert_eq!(read(&volume, id, 5).await, b"bytes");
    assert!(below(&dir.path().join("staging")).is_empty());
}

#[tokio::test]
async fn equal_bytes_share_an_inode() {
    let (dir, volume) = writer();
    let (one, two) = (ArtifactId::random(), ArtifactId::random());
    publish(&volume, one, b"bytes").await.unwrap();
    let published = sealed(&volume, two, b"bytes")
        .await
        .unwrap()
        .publish_as(one)
        .await
        .unwrap();
    assert_eq!(
        published,
        Published {
            size: 5,
            digest: Digest::of("bytes"),
            stored: Stored::Shared
        }
    );
    assert_eq!(inode(dir.path(), one), inode(dir.path(), two));
    assert_eq!(inode(dir.path(), one).1, 2);
    assert_eq!(read(&volume, two, 5).await, b"bytes");
    // Again, as after a crash before the catalog's commit.
    let again = sealed(&volume, two, b"bytes")
        .await
        .unwrap()
        .publish_as(one)
        .await
        .unwrap();
    assert_eq!(again.stored, Stored::Found);
    let itself = sealed(&volume, two, b"bytes")
        .await
        .unwrap()
        .publish_as(two)
        .await
        .unwrap();
    assert_eq!(itself.stored, Stored::Found);
    assert!(below(&dir.path().join("staging")).is_empty());
}

#[tokio::test]
async fn good_bytes_are_not_dropped_for_worse() {
    let (dir, volume) = writer();
    let (damaged, gone) = (ArtifactId::random(), ArtifactId::random());
    publish(&volume, damaged, b"bytes").await.unwrap();
    fs::write(dir.path().join("blobs").join(damaged.to_string()), "bytez").unwrap();
    for (equal, why) in [(damaged, Apart::Damaged), (gone, Apart::Gone)] {
        let id = ArtifactId::random();
        let published = sealed(&volume, id, b"bytes")
            .await
            .unwrap()
            .publish_as(equal)
            .await
            .unwrap();
        assert_eq!(published.stored, Stored::Apart(why));
        assert_eq!(read(&volume, id, 5).await, b"bytes");
        assert_eq!(inode(dir.path(), id).1, 1);
    }
}

#[tokio::test]
async fn a_file_with_too_many_names_is_not_shared() {
    for (errno, why) in [
        (rustix::io::Errno::MLINK, Apart::Crowded),
        (rustix::io::Errno::NOENT, Apart::Gone),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (ArtifactId::random(), ArtifactId::random());
        publish(&Volume::open_for_writing(dir.path(), 0, false).unwrap(), one, b"bytes")
            .await
            .unwrap();
        let fail = std::sync::atomic::AtomicBool::new(true);
        let steps = Steps::watched(move |step, path| {
            let about = step == Step::Link && path.ends_with(two.to_string());
            if about && fail.swap(false, std::sync::atomic::Ordering::Relaxed) {
                return Err(errno.into());
            }
            Ok::<_, io::Error>(())
        });
        let volume = Volume::open_for_writing_watched(dir.path(), 0, false, steps).unwrap();
        let published = sealed(&volume, two, b"bytes")
            .await
            .unwrap()
            .publish_as(one)
            .await
            .unwrap();
        assert_eq!(published.stored, Stored::Apart(why));
        assert_eq!(inode(dir.path(), two).1, 1);
        assert_eq!(read(&volume, two, 5).await, b"bytes");
    }
}

#[tokio::test]
async fn what_was_published_before_a_crash_is_found() {
    let (_dir, volume) = writer();
    let id = ArtifactId::random();
    assert_eq!(volume.recover(id).await.unwrap(), None);
    let content = pattern(1_234_567);
    let published = publish(&volume, id, &content).await.unwrap();
    assert_eq!(
        volume.recover(id).await.unwrap(),
        Some(Published {
            stored: Stored::Found,
            ..published
        })
    );
}

#[tokio::test]
async fn a_failed_write_is_final() {
    let dir = tempfile::tempdir().unwrap();
    let steps = Steps::watched(|step, path| {
        if step == Step::Write && path.to_str().is_some_and(|path| path.contains("staging")) {
            return Err(rustix::io::Errno::IO.into());
        }
        Ok(())
    });
    let volume = Volume::open_for_writing_watched(dir.path(), 0, false, steps).unwrap();
    let mut staged = volume.stage(ArtifactId::random(), None).await.unwrap();
    staged.write(Bytes::from(pattern(1 << 20))).await.unwrap();
    assert!(
        matches!(staged.write(Bytes::from(pattern(1 << 20))).await, Err(Error::Io(_))),
        "told by the next call"
    );
    assert!(matches!(
        staged.write(Bytes::from(pattern(1 << 20))).await,
        Err(Error::Broken)
    ));
    assert!(matches!(staged.finish().await.err(), Some(Error::Broken)));
    assert!(below(&dir.path().join("staging")).is_empty());
}
