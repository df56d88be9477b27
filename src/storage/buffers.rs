//! Buffers for the read path: at page boundaries, used again, and bounded in number while idle.
//!
//! A copy from the page cache into a buffer 16 bytes behind a page boundary, which is where an allocator puts a big one,
//! takes three times as long on some processors. So a buffer begins at a page boundary, and the bytes lie in it as they lie
//! in their pages in the file.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// The size of a page of memory, in bytes.
const PAGE: usize = 4096;
/// The most bytes that one buffer can hold.
pub(super) const LARGE: usize = 256 << 10;
/// What suffices for small files, so that many of them don't take much memory.
const SMALL: usize = 64 << 10;
/// How many idle buffers of each size are kept (16 MiB and 4 MiB).
const KEPT: usize = 64;

/// The idle buffers.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    small: Idle,
    large: Idle,
}

type Idle = Mutex<Vec<Vec<u8>>>;

impl Buffers {
    /// A buffer for up to `count` bytes (at most as many as [`most_at`] says) that begin at `position` in their file.
    pub(super) fn take(self: &Arc<Self>, position: u64, count: usize) -> Buffer {
        let size = if skew(position) + count <= SMALL { SMALL } else { LARGE };
        let idle = self.idle(size).lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = idle.unwrap_or_else(|| vec![0; size + PAGE]);
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE) + skew(position);
        Buffer {
            used: start..start + count,
            memory,
            size,
            home: Arc::clone(self),
        }
    }

    fn idle(&self, size: usize) -> &Idle {
        if size == SMALL { &self.small } else { &self.large }
    }
}

/// How many bytes from `position` on fit into a buffer.
pub(super) fn most_at(position: u64) -> usize {
    LARGE - skew(position)
}

/// How far behind a page boundary `position` is.
fn skew(position: u64) -> usize {
    usize::try_from(position % PAGE as u64).unwrap_or(0)
}

/// A buffer in use; dropped, it is idle again.
pub(super) struct Buffer {
    memory: Vec<u8>,
    used: Range<usize>,
    size: usize,
    home: Arc<Buffers>,
}

impl Buffer {
    /// The place for the bytes.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.memory[self.used.clone()]
    }

    /// The bytes, all of which are filled. The buffer is idle again when the last of them is dropped.
    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.used.clone()]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.home.idle(self.size).lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(std::mem::take(&mut self.memory));
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_as_in_their_pages() {
        let buffers = Arc::new(Buffers::default());
        for position in [0, 1, 16, 4095, 4096, 5000, u64::MAX] {
            for count in [1, 4096, most_at(position)] {
                let mut buffer = buffers.take(position, count);
                assert_eq!(buffer.space().len(), count);
                assert_eq!(buffer.space().as_ptr().addr() % PAGE, skew(position));
            }
        }
    }

    #[test]
    fn used_again_and_bounded() {
        let buffers = Arc::new(Buffers::default());
        let bytes = buffers.take(0, LARGE).into_bytes();
        let part = bytes.slice(100..200);
        let place = bytes.as_ptr();
        drop(bytes);
        assert_ne!(buffers.take(0, LARGE).as_ref().as_ptr(), place, "still in use");
        drop(part);
        assert_eq!(buffers.take(0, LARGE).as_ref().as_ptr(), place);
        let many: Vec<_> = (0..KEPT + 10).map(|_| buffers.take(0, 1)).collect();
        drop(many);
        assert_eq!(buffers.small.lock().unwrap().len(), KEPT);
        assert!(buffers.large.lock().unwrap().len() <= 2);
    }
}
