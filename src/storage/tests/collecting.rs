//! The collector and readers (docs/spec/storage.md 7.4).

use std::fs::File;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::*;

#[tokio::test]
async fn a_file_that_is_read_is_not_removed() {
    let (dir, volume) = writer();
    let id = ArtifactId::random();
    publish(&volume, id, b"bytes").await.unwrap();
    // The lock works between open files, so a volume opened apart is as good as another process.
    let other = Volume::open_for_reading(dir.path(), false).unwrap();
    let (one, two) = (other.open(id, 5).await.unwrap(), volume.open(id, 5).await.unwrap());
    let reader = one.reader(ByteRange::whole(5));
    drop(one);
    assert_eq!(other.counts().open_blobs, 1);
    assert_eq!(volume.remove_blob(id).await.unwrap(), Removal::Deferred);
    drop(two);
    assert_eq!(volume.remove_blob(id).await.unwrap(), Removal::Deferred);
    drop(reader);
    assert_eq!(other.counts().open_blobs, 0);
    assert_eq!(volume.remove_blob(id).await.unwrap(), Removal::Removed);
    assert_eq!(volume.remove_blob(id).await.unwrap(), Removal::Absent);
    assert!(matches!(other.open(id, 5).await.err(), Some(OpenError::Absent)));
}

#[tokio::test]
async fn a_reader_of_equal_bytes_holds_up_nobody() {
    let (_dir, volume) = writer();
    let (one, two) = (ArtifactId::random(), ArtifactId::random());
    let content = pattern(1_000_000);
    publish(&volume, one, &content).await.unwrap();
    sealed(&volume, two, &content)
        .await
        .unwrap()
        .publish_as(one)
        .await
        .unwrap();
    let blob = volume.open(two, 1_000_000).await.unwrap();
    let mut reader = blob.reader(ByteRange::whole(1_000_000));
    let mut got = reader.next(1000).await.unwrap().unwrap().to_vec();
    assert_eq!(volume.remove_blob(one).await.unwrap(), Removal::Removed);
    assert_eq!(
        volume.remove_blob(two).await.unwrap(),
        Removal::Deferred,
        "now the last name"
    );
    while let Some(bytes) = reader.next(usize::MAX).await.unwrap() {
        got.extend_from_slice(&bytes);
    }
    assert_eq!(got, content);
    drop((reader, blob));
    assert_eq!(volume.remove_blob(two).await.unwrap(), Removal::Removed);
}

fn collector(dir: &TempDir, id: ArtifactId) -> File {
    let file = File::open(dir.path().join("blobs").join(id.to_string())).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_a_moment_for_the_collector() {
    let (dir, volume) = writer();
    let id = ArtifactId::random();
    publish(&volume, id, b"bytes").await.unwrap();
    let held = collector(&dir, id);
    let began = tokio::time::Instant::now();
    assert!(matches!(volume.open(id, 5).await.err(), Some(OpenError::Reclaiming)));
    assert!((Duration::from_millis(100)..Duration::from_millis(150)).contains(&began.elapsed()));
    let (opened, ()) = tokio::join!(volume.open(id, 5), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(held);
    });
    opened.unwrap();
    assert_eq!(volume.counts().open_blobs, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_goes_while_it_is_waited_for_is_absent() {
    let (dir, volume) = writer();
    let id = ArtifactId::random();
    publish(&volume, id, b"bytes").await.unwrap();
    let held = collector(&dir, id);
    let (opened, ()) = tokio::join!(volume.open(id, 5), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::fs::remove_file(dir.path().join("blobs").join(id.to_string())).unwrap();
        drop(held);
    });
    assert!(matches!(opened.err(), Some(OpenError::Absent)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_collector_and_equal_bytes_at_once() {
    let (_dir, volume) = writer();
    let content = pattern(300_000);
    for _ in 0..20 {
        let ids: Vec<_> = (0..4).map(|_| ArtifactId::random()).collect();
        publish(&volume, ids[0], &content).await.unwrap();
        let open = volume.open(ids[0], 300_000).await.unwrap();
        let share = async {
            for id in &ids[1..] {
                sealed(&volume, *id, &content)
                    .await
                    .unwrap()
                    .publish_as(ids[0])
                    .await
                    .unwrap();
            }
        };
        let collect = async {
            let mut left = ids.clone();
            while left.len() > 1 {
                let id = left[0];
                match volume.remove_blob(id).await.unwrap() {
                    Removal::Removed => drop(left.remove(0)),
                    _ => tokio::task::yield_now().await,
                }
                left.rotate_left(1);
            }
            left[0]
        };
        let watch = async {
            let mut reader = open.reader(ByteRange::whole(300_000));
            let mut got = Vec::new();
            while let Some(bytes) = reader.next(10_000).await.unwrap() {
                got.extend_from_slice(&bytes);
                tokio::task::yield_now().await;
            }
            assert_eq!(got, content, "a reader that had begun sees all of it");
        };
        let ((), last, ()) = tokio::join!(share, collect, watch);
        drop(open);
        assert_eq!(
            read(&volume, last, 300_000).await,
            content,
            "the last name leads to the bytes"
        );
        assert_eq!(volume.remove_blob(last).await.unwrap(), Removal::Removed);
    }
    assert_eq!(volume.counts().open_blobs, 0);
}
