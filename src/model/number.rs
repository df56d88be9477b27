//! Numbers that operators and clients write, and the bounds of rates.

use std::str::FromStr;

/// The lowest rate, and the least that one slot must carry, in bytes a second (docs/spec/environment.md 4.2).
pub const LOWEST_RATE: u64 = 65_536;
/// The highest rate: 1 TiB/s.
pub const HIGHEST_RATE: u64 = 1 << 40;

/// A whole number in its one way of writing: no sign, space, leading zero or exponent (docs/spec/environment.md 4.0).
pub fn canonical<T: FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if digits && !leading_zero {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn canonical_is_what_a_number_prints_as(n: u64) {
            prop_assert_eq!(canonical(&n.to_string()), Some(n));
        }

        #[test]
        fn nothing_else_is_canonical(text in "[0-9+e. _-]{0,22}") {
            if let Some(n) = canonical::<u64>(&text) {
                prop_assert_eq!(n.to_string(), text);
            }
        }
    }
}
