//! The bytes of a published file: from the page cache without leaving the async thread, from the disk by the blocking
//! pool (docs/spec/storage.md 7.3).

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use super::blob::{Blob, Open};
use super::blocking::off_thread;
use super::buffers::{self, Buffer};
use super::error::ReadError;
use crate::model::range::ByteRange;

/// How far ahead the kernel is told to read once bytes were found missing in its cache.
const AHEAD: u64 = 2 << 20;

/// Delivers the bytes of one range: exactly as many as were promised, or an error.
pub struct Reader {
    blob: Blob,
    position: u64,
    end: u64,
}

impl Reader {
    pub(super) fn new(blob: Blob, range: ByteRange) -> Self {
        Self {
            blob,
            position: range.start,
            end: range.end,
        }
    }

    /// How many bytes are still to come.
    pub fn remaining(&self) -> u64 {
        self.end - self.position
    }

    /// The next bytes: at least one, at most `max`, and never more than 256 KiB; `None` after the last.
    ///
    /// A call that is dropped half way loses nothing: the next one delivers the same bytes.
    pub async fn next(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        let left = self.remaining();
        if left == 0 {
            return Ok(None);
        }
        let most = max.max(1).min(buffers::most_at(self.position));
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(most);
        let open = &self.blob.0;
        let mut buffer = open.volume.0.buffers.take(self.position, count);
        let counters = &open.volume.0.counters;
        let cached = read_cached(open, buffer.space(), self.position);
        if cached == count {
            counters.cached_reads.fetch_add(1, Relaxed);
        } else {
            // A short answer is no end: some kernels give one, and the rest may just not be in memory.
            counters.blocking_reads.fetch_add(1, Relaxed);
            let (blob, position) = (self.blob.clone(), self.position);
            buffer = off_thread(move || read_rest(&blob.0, buffer, cached, position, left)).await??;
        }
        self.position += count as u64;
        Ok(Some(buffer.into_bytes()))
    }
}

/// Reads what is in memory, and says how much that was. An error counts as nothing: the blocking read will meet it again.
fn read_cached(open: &Open, space: &mut [u8], position: u64) -> usize {
    preadv2(
        &open.file,
        &mut [IoSliceMut::new(space)],
        position,
        ReadWriteFlags::NOWAIT,
    )
    .unwrap_or(0)
}

/// Reads all but the first `done` bytes of a buffer, and starts reading ahead for those that come after.
fn read_rest(open: &Open, mut buffer: Buffer, done: usize, position: u64, left: u64) -> io::Result<Buffer> {
    let ahead = left.min(AHEAD);
    if ahead > buffer.space().len() as u64 {
        // Only a hint.
        let _ = fadvise(&open.file, position, NonZeroU64::new(ahead), Advice::WillNeed);
    }
    open.file
        .read_exact_at(&mut buffer.space()[done..], position + done as u64)?;
    Ok(buffer)
}
