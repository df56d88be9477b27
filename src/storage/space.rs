//! Room on the volume: every file being written holds a claim on what it will still need (docs/spec/storage.md 7.2,
//! step 3).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::fstatvfs;

use super::error::Error;

/// Room is checked again after this many bytes.
const RECHECK: u64 = 64 << 20;

/// Bytes that an ordinary user may still write on the file system of `directory`.
pub(super) fn available(directory: impl AsFd) -> io::Result<u64> {
    let found = fstatvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The room of one volume.
#[derive(Debug)]
pub(super) struct Space {
    directory: File,
    reserve: u64,
    in_flight: AtomicU64,
}

impl Space {
    /// Room in `directory`, of which `reserve` bytes are never given away.
    pub(super) fn new(directory: File, reserve: u64) -> Self {
        Self {
            directory,
            reserve,
            in_flight: AtomicU64::new(0),
        }
    }

    /// The sum of all claims, in bytes.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the reserve is untouched.
    pub(super) fn has_reserve(&self) -> io::Result<bool> {
        Ok(available(&self.directory)? >= self.reserve)
    }

    /// Claims room for `declared` bytes. A file of unknown size claims nothing, and is checked at every write instead.
    pub(super) fn claim(self: &Arc<Self>, declared: Option<u64>) -> Result<Claim, Error> {
        let left = declared.unwrap_or(0);
        // Counted before it is checked: of two that fit only one by one, never both get in.
        self.in_flight
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |sum| sum.checked_add(left))
            .map_err(|_| Error::Full)?;
        let claim = Claim {
            space: Arc::clone(self),
            left,
            known: declared.is_some(),
            since_check: 0,
        };
        self.check(0)?;
        Ok(claim)
    }

    fn check(&self, beyond: u64) -> Result<(), Error> {
        let wanted = self.in_flight().saturating_add(self.reserve).saturating_add(beyond);
        if available(&self.directory)? >= wanted {
            Ok(())
        } else {
            Err(Error::Full)
        }
    }
}

/// One file's claim on the bytes that it will still need; given back when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    space: Arc<Space>,
    left: u64,
    known: bool,
    since_check: u64,
}

impl Claim {
    /// Says that `count` bytes are about to be written, and checks the room if it is time.
    pub(super) fn before_write(&mut self, count: u64) -> Result<(), Error> {
        self.since_check = self.since_check.saturating_add(count);
        if !self.known {
            self.space.check(count)
        } else if self.since_check >= RECHECK {
            self.since_check = 0;
            self.space.check(0)
        } else {
            Ok(())
        }
    }

    /// Says that `count` bytes were written: the file system counts them from now on.
    pub(super) fn after_write(&mut self, count: u64) {
        let spent = count.min(self.left);
        self.left -= spent;
        self.space.in_flight.fetch_sub(spent, Ordering::Relaxed);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.space.in_flight.fetch_sub(self.left, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(reserve: u64) -> Arc<Space> {
        Arc::new(Space::new(File::open(std::env::temp_dir()).unwrap(), reserve))
    }

    #[test]
    fn claims_add_up_and_are_given_back() {
        let space = space(0);
        let mut one = space.claim(Some(1000)).unwrap();
        let two = space.claim(Some(500)).unwrap();
        assert_eq!(space.in_flight(), 1500);
        one.before_write(400).unwrap();
        one.after_write(400);
        assert_eq!(space.in_flight(), 1100);
        drop(two);
        assert_eq!(space.in_flight(), 600);
        one.after_write(u64::MAX);
        assert_eq!(space.in_flight(), 0);
    }

    #[test]
    fn no_room() {
        let tight = space(0);
        for size in [1 << 60, u64::MAX] {
            let kept = tight.claim(Some(10)).unwrap();
            assert!(matches!(tight.claim(Some(size)), Err(Error::Full)));
            assert_eq!(tight.in_flight(), 10);
            drop(kept);
        }
        let reserved = space(1 << 60);
        assert!(matches!(reserved.claim(None), Err(Error::Full)));
        assert!(!reserved.has_reserve().unwrap());
        assert_eq!(reserved.in_flight(), 0);
    }

    #[test]
    fn checked_again_while_writing() {
        let space = space(0);
        let mut claim = space.claim(Some(RECHECK)).unwrap();
        let _late = {
            // A claim that got in although there's no room, as if the disk had filled up since.
            space.in_flight.fetch_add(1 << 60, Ordering::Relaxed);
            Claim {
                space: Arc::clone(&space),
                left: 1 << 60,
                known: true,
                since_check: 0,
            }
        };
        claim.before_write(RECHECK - 1).unwrap();
        assert!(matches!(claim.before_write(1), Err(Error::Full)));
    }
}
