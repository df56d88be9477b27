//! The name under which a browser saves a file (docs/spec/http-api.md 2.6).

use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but what both `encodeURIComponent` and `attr-char` of RFC 8187 leave as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~');

/// `Content-Disposition` for a file with this name: only the extended form, which can carry any name.
pub fn attachment(name: &str) -> HeaderValue {
    let text = format!("attachment; filename*=UTF-8''{}", utf8_percent_encode(name, ENCODED));
    // The text is plain ASCII, so it never comes to the other value.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    #[test]
    fn table() {
        for (name, encoded) in [
            ("app-1.2_3~x!.tar.gz", "app-1.2_3~x!.tar.gz"),
            ("a b.txt", "a%20b.txt"),
            ("it's (1)*.txt", "it%27s%20%281%29%2A.txt"),
            ("ä€😀", "%C3%A4%E2%82%AC%F0%9F%98%80"),
            ("a\"b\\c;d=e%f/g", "a%22b%5Cc%3Bd%3De%25f%2Fg"),
            ("#$&+^`|@", "%23%24%26%2B%5E%60%7C%40"),
            ("a\r\nb\0", "a%0D%0Ab%00"),
            ("", ""),
        ] {
            let wanted = format!("attachment; filename*=UTF-8''{encoded}");
            assert_eq!(attachment(name), wanted, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn any_name_comes_back(name: String) {
            let value = attachment(&name);
            let encoded = value.to_str().unwrap().strip_prefix("attachment; filename*=UTF-8''").unwrap();
            prop_assert!(encoded.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.!~%".contains(&c)));
            prop_assert_eq!(percent_decode_str(encoded).decode_utf8().unwrap(), name);
        }
    }
}
