//! Reading ranges (docs/spec/storage.md 7.3).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;
use rustix::fs::{Advice, fadvise};

use super::*;

async fn part(volume: &Volume, id: ArtifactId, size: u64, range: ByteRange, max: usize) -> Result<Vec<u8>, ReadError> {
    let mut reader = volume.open(id, size).await.unwrap().reader(range);
    let mut got = Vec::new();
    while let Some(bytes) = reader.next(max).await? {
        assert!(!bytes.is_empty() && bytes.len() <= max.max(1));
        got.extend_from_slice(&bytes);
        assert_eq!(reader.remaining(), range.len() - got.len() as u64);
    }
    Ok(got)
}

/// Puts a file of `size` bytes under a new name, written by `write`.
fn place(dir: &TempDir, size: u64, write: impl FnOnce(&File)) -> ArtifactId {
    let id = ArtifactId::random();
    let file = File::create_new(dir.path().join("blobs").join(id.to_string())).unwrap();
    file.set_len(size).unwrap();
    write(&file);
    id
}

#[test]
fn any_range_in_any_pieces() {
    let content = pattern(1_000_003);
    let (dir, volume) = writer();
    let id = place(&dir, 1_000_003, |file| file.write_all_at(&content, 0).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    proptest!(|(start in 0..1_000_003_u64, length in 0..600_000_u64, max in prop_oneof![0..9000_usize, 60_000..2_000_000_usize])| {
        let range = ByteRange { start, end: (start + length).min(1_000_003) };
        let max = if range.len() > 100_000 { max + 3000 } else { max };
        let got = runtime.block_on(part(&volume, id, 1_000_003, range, max)).unwrap();
        let wanted = &content[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        prop_assert!(got == wanted, "{range:?} by {max}");
    });
    let counts = volume.counts();
    assert_eq!(counts.open_blobs, 0);
    assert!(counts.cached_reads + counts.blocking_reads > 0);
}

#[tokio::test]
async fn near_the_end_of_a_huge_file() {
    const SIZE: u64 = 10 << 30;
    let (dir, volume) = writer();
    let start = SIZE / 100 * 99;
    let content = pattern(700_000);
    let id = place(&dir, SIZE, |file| file.write_all_at(&content, start).unwrap());
    let range = ByteRange {
        start,
        end: start + 700_000,
    };
    assert_eq!(part(&volume, id, SIZE, range, 1 << 20).await.unwrap(), content);
    let last = ByteRange {
        start: SIZE - 1,
        end: SIZE,
    };
    assert_eq!(part(&volume, id, SIZE, last, 1 << 20).await.unwrap(), [0]);
    let nothing = ByteRange { start: SIZE, end: SIZE };
    assert!(part(&volume, id, SIZE, nothing, 1 << 20).await.unwrap().is_empty());
}

#[tokio::test]
async fn not_in_memory() {
    let (dir, volume) = writer();
    let content = pattern(6_000_000);
    let id = place(&dir, 6_000_000, |file| {
        file.write_all_at(&content, 0).unwrap();
        file.sync_all().unwrap();
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
    });
    let cold = part(&volume, id, 6_000_000, ByteRange::whole(6_000_000), 1 << 20)
        .await
        .unwrap();
    assert!(cold == content);
    let after_cold = volume.counts();
    let hot = part(&volume, id, 6_000_000, ByteRange::whole(6_000_000), 1 << 20)
        .await
        .unwrap();
    assert!(hot == content);
    let after_hot = volume.counts();
    let reads = |counts: Counts| counts.cached_reads + counts.blocking_reads;
    assert_eq!(reads(after_hot), 2 * reads(after_cold), "every read is counted once");
}

#[tokio::test]
async fn a_file_that_shrinks_is_an_error_and_no_end() {
    let (dir, volume) = writer();
    let content = pattern(500_000);
    for (kept, max) in [(300_000, 1000), (300_000, 1 << 20), (262_144, 1 << 20), (0, 1 << 20)] {
        let id = place(&dir, 500_000, |file| file.write_all_at(&content, 0).unwrap());
        let mut reader = volume
            .open(id, 500_000)
            .await
            .unwrap()
            .reader(ByteRange::whole(500_000));
        let path = dir.path().join("blobs").join(id.to_string());
        OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(kept)
            .unwrap();
        let mut got = Vec::new();
        let error = loop {
            match reader.next(max).await {
                Ok(Some(bytes)) => got.extend_from_slice(&bytes),
                Ok(None) => panic!("a clean end of a short file"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ReadError::Short), "{error:?}");
        assert!(got.len() as u64 <= kept && got[..] == content[..got.len()]);
    }
}

#[tokio::test]
async fn size_is_checked_before_anything_is_sent() {
    let (dir, volume) = writer();
    let id = place(&dir, 100, |_| {});
    for expected in [0, 99, 101] {
        let error = volume.open(id, expected).await.err();
        assert!(
            matches!(error, Some(OpenError::WrongLength { found: 100, .. })),
            "{error:?}"
        );
    }
    assert!(matches!(
        volume.open(ArtifactId::random(), 0).await.err(),
        Some(OpenError::Absent)
    ));
    assert_eq!(volume.counts().open_blobs, 0);
}

#[tokio::test]
async fn a_symbolic_link_is_no_blob() {
    let (dir, volume) = writer();
    let target = place(&dir, 100, |_| {});
    let id = ArtifactId::random();
    std::os::unix::fs::symlink(target.to_string(), dir.path().join("blobs").join(id.to_string())).unwrap();
    assert!(matches!(volume.open(id, 100).await.err(), Some(OpenError::Io(_))));
}

#[tokio::test]
async fn a_read_that_is_given_up_loses_nothing() {
    let (dir, volume) = writer();
    let content = pattern(2_000_000);
    let id = place(&dir, 2_000_000, |file| {
        file.write_all_at(&content, 0).unwrap();
        file.sync_all().unwrap();
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
    });
    let mut reader = volume
        .open(id, 2_000_000)
        .await
        .unwrap()
        .reader(ByteRange::whole(2_000_000));
    let mut got = Vec::new();
    loop {
        // Polled once and dropped, where it needs the disk.
        if let Some(Ok(Some(bytes))) = futures_util::FutureExt::now_or_never(reader.next(100_000)) {
            got.extend_from_slice(&bytes);
        }
        match reader.next(50_000).await.unwrap() {
            Some(bytes) => got.extend_from_slice(&bytes),
            None => break,
        }
    }
    assert!(got == content);
}
