//! The read path of one process beside a plain read loop, on bytes in the page cache: ratios of runs made in turn, not
//! absolute times. `cargo bench --bench read_path`; TMPDIR chooses the file system.

use std::error::Error;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use arkvory::clock::{Clock as _, SystemClock};
use arkvory::model::id::ArtifactId;
use arkvory::model::range::ByteRange;
use arkvory::storage::{Blob, Volume};
use bytes::Bytes;

const SIZE: u64 = 256 << 20;
const ROUNDS: usize = 9;
const QUANTUM: usize = 1 << 20;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let volume = Volume::open_for_writing(dir.path(), 0, true)?;
    let id = ArtifactId::random();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(fill(&volume, id))?;
    let path = dir.path().join("blobs").join(id.to_string());
    let blob = runtime.block_on(volume.open(id, SIZE))?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:>28}  median  least  most   (speed of Reader / of a read loop, 256 KiB each)",
        "range"
    )?;
    for (name, start) in [("whole file", 0), ("from byte 1", 1), ("from byte 4080", 4080)] {
        let range = ByteRange { start, end: SIZE };
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let plain = timed(|| plain_loop(&path, range))?;
            let ours = timed(|| runtime.block_on(deliver(&blob, range)))?;
            ratios.push(plain / ours);
        }
        ratios.sort_by(f64::total_cmp);
        let [least, median, most] = [ratios[0], ratios[ROUNDS / 2], ratios[ROUNDS - 1]];
        writeln!(out, "{name:>28}  {median:6.2} {least:6.2} {most:6.2}")?;
    }
    let small = ByteRange { start: 0, end: 4096 };
    let many = 20_000;
    let opens = timed(|| {
        runtime.block_on(async {
            for _ in 0..many {
                deliver(&volume.open(id, SIZE).await?, small).await?;
            }
            Ok(())
        })
    })?;
    writeln!(
        out,
        "open, lock and read 4 KiB: {:.1} us each",
        opens / f64::from(many) * 1e6
    )?;
    let counts = volume.counts();
    writeln!(
        out,
        "reads from memory {}, from the blocking pool {}",
        counts.cached_reads, counts.blocking_reads
    )?;
    Ok(())
}

async fn fill(volume: &Volume, id: ArtifactId) -> Result<()> {
    let piece = Bytes::from((0..QUANTUM).map(|i| i.to_le_bytes()[i % 2]).collect::<Vec<_>>());
    let mut staged = volume.stage(id, Some(SIZE)).await?;
    for _ in 0..SIZE / QUANTUM as u64 {
        staged.write(piece.clone()).await?;
    }
    staged.finish().await?.publish().await?;
    Ok(())
}

/// Seconds that `work` takes.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = SystemClock.now();
    work()?;
    Ok(SystemClock.now().since(began).as_secs_f64())
}

fn plain_loop(path: &Path, range: ByteRange) -> Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(range.start))?;
    let mut buffer = vec![0; 256 << 10];
    let mut left = range.len();
    while left > 0 {
        left -= file.read(&mut buffer)? as u64;
    }
    Ok(())
}

async fn deliver(blob: &Blob, range: ByteRange) -> Result<()> {
    let mut reader = blob.reader(range);
    while let Some(bytes) = reader.next(QUANTUM).await? {
        std::hint::black_box(bytes);
    }
    Ok(())
}
