//! Everything that crosses a socket, shared by both ends. Sizes are decimal strings, times RFC 3339 with milliseconds
//! (docs/spec/http-api.md 2.1).

pub mod artifact;
pub mod health;
pub mod identity;
pub mod problem;

use serde::Serializer;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const RFC3339_MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A moment as `2026-11-29T22:21:34.000Z`.
pub fn timestamp(moment: OffsetDateTime) -> String {
    // Formatting a date of four-digit years into a String has nothing that can fail.
    moment
        .to_offset(time::UtcOffset::UTC)
        .format(RFC3339_MILLISECONDS)
        .unwrap_or_default()
}

fn as_timestamp<S: Serializer>(moment: &OffsetDateTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&timestamp(*moment))
}

fn as_text<T: ToString, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds() {
        let moment = OffsetDateTime::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_007);
        assert_eq!(timestamp(moment), "2023-11-14T22:13:20.007Z");
    }
}
