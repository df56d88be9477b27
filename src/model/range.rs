//! Byte ranges of one file: pure arithmetic (docs/spec/http-api.md 2.6).

use std::fmt;

/// A run of bytes of a file, half open: `start..end`, never beyond the file's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

impl ByteRange {
    /// All of a file of `size` bytes.
    pub const fn whole(size: u64) -> Self {
        Self { start: 0, end: size }
    }

    /// How many bytes.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// What a `Range` header asks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// No usable range: answer 200 with the whole file.
    Whole,
    /// Answer 206 with these bytes (at least one).
    Part(ByteRange),
    /// Answer 416.
    Unsatisfiable,
}

impl Selection {
    /// Decides what `header` asks of a file of `size` bytes.
    ///
    /// Several ranges, another unit and anything malformed mean the whole file. Integers of any length are compared
    /// exactly.
    pub fn of(header: &str, size: u64) -> Self {
        let Some(spec) = strip_unit(header.trim_matches([' ', '\t'])) else {
            return Self::Whole;
        };
        if spec.contains(',') {
            return Self::Whole;
        }
        match spec.split_once('-') {
            Some(("", suffix)) => Number::parse(suffix).map_or(Self::Whole, |n| Self::last(n, size)),
            Some((first, "")) => Number::parse(first).map_or(Self::Whole, |n| Self::from(n, Number::MAX, size)),
            Some((first, last)) => match (Number::parse(first), Number::parse(last)) {
                (Some(first), Some(last)) if first <= last => Self::from(first, last, size),
                _ => Self::Whole,
            },
            None => Self::Whole,
        }
    }

    fn last(count: Number, size: u64) -> Self {
        match count.value().min(size) {
            0 => Self::Unsatisfiable,
            count => Self::Part(ByteRange {
                start: size - count,
                end: size,
            }),
        }
    }

    fn from(first: Number, last: Number, size: u64) -> Self {
        if first.value() >= size {
            return Self::Unsatisfiable;
        }
        Self::Part(ByteRange {
            start: first.value(),
            end: last.value().saturating_add(1).min(size),
        })
    }
}

fn strip_unit(header: &str) -> Option<&str> {
    let (unit, spec) = header.split_at_checked(6)?;
    unit.eq_ignore_ascii_case("bytes=").then_some(spec)
}

/// A decimal of any length, in order: its digits without leading zeros, compared by length and then by text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Number<'a>(usize, &'a str);

impl<'a> Number<'a> {
    const MAX: Self = Self(usize::MAX, "");

    fn parse(digits: &'a str) -> Option<Self> {
        if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let digits = digits.trim_start_matches('0');
        Some(Self(digits.len(), digits))
    }

    /// Its value; what does not fit is beyond any file.
    fn value(self) -> u64 {
        if self.0 == 0 {
            0
        } else {
            self.1.parse().unwrap_or(u64::MAX)
        }
    }
}

impl fmt::Display for ByteRange {
    /// As in `Content-Range`: first and last byte.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(start: u64, end: u64) -> Selection {
        Selection::Part(ByteRange { start, end })
    }

    #[test]
    fn table() {
        let huge = "9".repeat(400);
        for (header, size, wanted) in [
            ("bytes=0-0", 10, part(0, 1)),
            ("bytes=2-4", 10, part(2, 5)),
            ("bytes=2-", 10, part(2, 10)),
            ("bytes=2-99", 10, part(2, 10)),
            ("BYTES=2-4", 10, part(2, 5)),
            ("bytes=-3", 10, part(7, 10)),
            ("bytes=-11", 10, part(0, 10)),
            ("bytes=-0", 10, Selection::Unsatisfiable),
            ("bytes=-5", 0, Selection::Unsatisfiable),
            ("bytes=0-", 0, Selection::Unsatisfiable),
            ("bytes=10-", 10, Selection::Unsatisfiable),
            ("bytes=10-20", 10, Selection::Unsatisfiable),
            ("bytes=9-", 10, part(9, 10)),
            ("bytes=0002-0004", 10, part(2, 5)),
            ("bytes=4-2", 10, Selection::Whole),
            ("bytes=-", 10, Selection::Whole),
            ("bytes=", 10, Selection::Whole),
            ("bytes", 10, Selection::Whole),
            ("", 10, Selection::Whole),
            ("bytes=a-b", 10, Selection::Whole),
            ("bytes=1 - 2", 10, Selection::Whole),
            ("bytes=+1-2", 10, Selection::Whole),
            ("bytes=0-1,3-4", 10, Selection::Whole),
            ("items=0-1", 10, Selection::Whole),
            ("bytes=0-18446744073709551615", 10, part(0, 10)),
            ("bytes=0-18446744073709551616", 10, part(0, 10)),
            (
                "bytes=18446744073709551616-18446744073709551617",
                10,
                Selection::Unsatisfiable,
            ),
            ("bytes=18446744073709551617-18446744073709551616", 10, Selection::Whole),
        ] {
            assert_eq!(Selection::of(header, size), wanted, "{header} of {size}");
        }
        assert_eq!(Selection::of(&format!("bytes=3-{huge}"), 10), part(3, 10));
        assert_eq!(Selection::of(&format!("bytes={huge}-"), 10), Selection::Unsatisfiable);
        assert_eq!(Selection::of(&format!("bytes=-{huge}"), 10), part(0, 10));
        assert_eq!(Selection::of("bytés=0-1", 10), Selection::Whole);
    }

    proptest! {
        #[test]
        fn a_part_lies_in_the_file_and_is_what_was_asked(first: u64, last: u64, size: u64) {
            match Selection::of(&format!("bytes={first}-{last}"), size) {
                Selection::Whole => prop_assert!(last < first),
                Selection::Unsatisfiable => prop_assert!(first <= last && first >= size),
                Selection::Part(range) => {
                    prop_assert!(range.start == first && range.end <= size && !range.is_empty());
                    prop_assert_eq!(range.end, last.saturating_add(1).min(size));
                }
            }
        }

        #[test]
        fn any_text_gets_an_answer(header in "(bytes=)?[0-9a-z=,+ -]{0,60}", size: u64) {
            if let Selection::Part(range) = Selection::of(&header, size) {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }
    }
}
