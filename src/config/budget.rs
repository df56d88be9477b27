//! Local limits of the rate (docs/spec/environment.md 4.3). In the shared profile they can only lower the share.

use super::findings::Findings;
use super::variables::Variables;

/// Limits of this process alone; 0 = off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// `ARKVORY_DOWNLOAD_BYTES_PER_SECOND`: all downloads of this process, in bytes/s; 0 or 65,536 to 1 TiB/s; default 0.
    pub download_rate: u64,
    /// `ARKVORY_DOWNLOAD_BYTES_PER_SECOND_PER_PRINCIPAL`: those of one principal, same unit and range; default 0.
    pub download_rate_per_principal: u64,
}

impl Budget {
    pub(super) fn read(found: &Variables, findings: &mut Findings) -> Self {
        Self {
            download_rate: findings.rate(&found.download_bytes_per_second),
            download_rate_per_principal: findings.rate(&found.download_bytes_per_second_per_principal),
        }
    }
}
