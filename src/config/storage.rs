//! The volume (docs/spec/environment.md 4.1 and 4.4).

use std::path::PathBuf;

use super::file;
use super::findings::Findings;
use super::variables::Variables;

const TEN_TIB: u64 = 10 << 40;
/// The largest integer that every JSON reader keeps exact.
const LARGEST: u64 = (1 << 53) - 1;
const LARGEST_OBJECT: u64 = 10_737_418_240_000;

/// Where the bytes lie and how many may.
#[derive(Clone, Debug)]
pub struct Storage {
    /// `ARKVORY_DATA_DIR`: folder on a local file system with hard links; required. A reader needs it made by a writer.
    pub dir: PathBuf,
    /// `ARKVORY_CAPACITY_BYTES`: logical sum of all reserved content in bytes, 1 to 2^53-1; default 10 TiB.
    pub capacity: u64,
    /// `ARKVORY_STORAGE_RESERVE_BYTES`: free space below which nothing is taken in, in bytes, 0 (off) to 2^53-1; default
    /// 1 GiB.
    pub reserve: u64,
    /// `ARKVORY_MAX_OBJECT_BYTES`: the largest content in bytes; 1 to the default, 10,737,418,240,000.
    pub max_object: u64,
    /// `ARKVORY_ALLOW_UNCERTIFIED_FS`: take NFS, SMB and FUSE as data directory; default false.
    pub allow_uncertified: bool,
}

impl Storage {
    pub(super) fn read(found: &Variables, findings: &mut Findings) -> Option<Self> {
        let dir = findings.required(&found.data_dir, "the path of the data directory", file::path);
        let capacity = findings.number(&found.capacity_bytes, TEN_TIB, 1..=LARGEST);
        let reserve = findings.number(&found.storage_reserve_bytes, 1 << 30, 0..=LARGEST);
        let max_object = findings.number(&found.max_object_bytes, LARGEST_OBJECT, 1..=LARGEST_OBJECT);
        let allow_uncertified = findings.flag(&found.allow_uncertified_fs, false);
        Some(Self {
            dir: dir?,
            capacity,
            reserve,
            max_object,
            allow_uncertified,
        })
    }
}
