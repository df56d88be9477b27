//! What a GET or HEAD on bytes is answered with: the decision table of docs/spec/http-api.md 2.6, without I/O.

use http::header::{IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, Method};

use crate::model::digest::Digest;
use crate::model::range::{ByteRange, Selection};

/// What the request is answered with, after the look-up and the file lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// 304 without a body, with the entity tag.
    NotModified,
    /// 200 with the whole file's length; for a GET with its bytes.
    Whole,
    /// 206 with these bytes (at least one).
    Part(ByteRange),
    /// 416 with `Content-Range: bytes */size`.
    Unsatisfiable,
}

/// The strong entity tag of contents: `"sha256:<64 hex>"`, quotes included.
pub fn entity_tag(digest: &Digest) -> String {
    format!("\"sha256:{digest}\"")
}

/// Decides about a file of `size` bytes with this digest, asked for by GET or HEAD.
///
/// `If-None-Match` comes first, then HEAD, `If-Range` and `Range`. Where a single header is given twice, what it says is
/// unclear, and the whole file is right in any case.
pub fn decide(method: &Method, headers: &HeaderMap, digest: &Digest, size: u64) -> Decision {
    if matches_any(headers, digest) {
        return Decision::NotModified;
    }
    if method == Method::HEAD || !same_representation(headers, digest) {
        return Decision::Whole;
    }
    match range(headers).map_or(Selection::Whole, |range| Selection::of(range, size)) {
        Selection::Whole => Decision::Whole,
        Selection::Part(range) => Decision::Part(range),
        Selection::Unsatisfiable => Decision::Unsatisfiable,
    }
}

/// Whether any `If-None-Match` line has the tag, strong or weak, or `*` in its list.
fn matches_any(headers: &HeaderMap, digest: &Digest) -> bool {
    let mut lines = headers.get_all(IF_NONE_MATCH).iter().peekable();
    if lines.peek().is_none() {
        return false;
    }
    let tag = entity_tag(digest);
    lines
        .flat_map(|line| elements(line.as_bytes()))
        .any(|element| element == b"*" || element.strip_prefix(b"W/").unwrap_or(element) == tag.as_bytes())
}

/// Whether `If-Range` allows a range: it is absent, or exactly the strong tag.
fn same_representation(headers: &HeaderMap, digest: &Digest) -> bool {
    let mut lines = headers.get_all(IF_RANGE).iter();
    lines
        .next()
        .is_none_or(|condition| condition.as_bytes() == entity_tag(digest).as_bytes() && lines.next().is_none())
}

/// What the only `Range` line says.
fn range(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(RANGE).iter();
    let range = lines.next()?.to_str().ok()?;
    lines.next().is_none().then_some(range)
}

/// The elements of a comma list of entity tags. Commas inside quotes belong to a tag.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    list.split(move |&c| {
        quoted ^= c == b'"';
        c == b',' && !quoted
    })
    .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const SIZE: u64 = 10;

    /// `ETAG` stands for the tag of the file.
    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let tag = format!("\"sha256:{HEX}\"");
        let parse = |&(name, value): &(&str, &str)| {
            let value = HeaderValue::from_bytes(value.replace("ETAG", &tag).as_bytes()).unwrap();
            (HeaderName::try_from(name).unwrap(), value)
        };
        lines.iter().map(parse).collect()
    }

    fn decide_of(head: bool, lines: &[(&str, &str)], size: u64) -> Decision {
        let method = if head { Method::HEAD } else { Method::GET };
        decide(&method, &headers(lines), &HEX.parse().unwrap(), size)
    }

    fn part(start: u64, end: u64) -> Decision {
        Decision::Part(ByteRange { start, end })
    }

    #[test]
    fn tag_text() {
        let digest = HEX.parse().unwrap();
        assert_eq!(entity_tag(&digest), format!("\"sha256:{HEX}\""));
    }

    #[test]
    fn if_none_match() {
        let other = format!("\"sha256:{}\"", "0".repeat(64));
        for (values, not_modified) in [
            (vec!["ETAG"], true),
            (vec!["*"], true),
            (vec!["W/ETAG"], true),
            (vec!["\"other\", ETAG"], true),
            (vec!["\"a,b\" ,\t W/ETAG,\"c\""], true),
            (vec!["\"other\",*"], true),
            (vec!["\"other\"", "ETAG"], true),
            (vec!["", ",, ETAG ,"], true),
            (vec![&other], false),
            (vec!["\"a,*,b\""], false),
            (vec!["w/ETAG"], false),
            (vec!["W/ ETAG"], false),
            (vec!["ETAG ETAG"], false),
            (vec![HEX], false),
            (vec![""], false),
            (vec!["\u{e9}"], false),
        ] {
            let lines: Vec<_> = values.iter().map(|&value| ("if-none-match", value)).collect();
            let wanted = if not_modified {
                Decision::NotModified
            } else {
                Decision::Whole
            };
            for head in [false, true] {
                assert_eq!(decide_of(head, &lines, SIZE), wanted, "{lines:?}");
            }
            let mut ranged = lines.clone();
            ranged.push(("range", "bytes=2-4"));
            let wanted = if not_modified {
                Decision::NotModified
            } else {
                part(2, 5)
            };
            assert_eq!(decide_of(false, &ranged, SIZE), wanted, "before Range: {lines:?}");
        }
    }

    #[test]
    fn head_ignores_ranges() {
        for lines in [
            vec![("range", "bytes=2-4")],
            vec![("range", "bytes=99-")],
            vec![("range", "bytes=2-4"), ("if-range", "ETAG")],
        ] {
            assert_eq!(decide_of(true, &lines, SIZE), Decision::Whole);
        }
    }

    #[test]
    fn if_range() {
        for (conditions, wanted) in [
            (vec!["ETAG"], part(2, 5)),
            (vec!["W/ETAG"], Decision::Whole),
            (vec!["Wed, 21 Oct 2026 07:28:00 GMT"], Decision::Whole),
            (vec!["\"other\""], Decision::Whole),
            (vec!["ETAG, \"other\""], Decision::Whole),
            (vec!["*"], Decision::Whole),
            (vec![""], Decision::Whole),
            (vec!["ETAG", "ETAG"], Decision::Whole),
        ] {
            let mut lines = vec![("range", "bytes=2-4")];
            lines.extend(conditions.iter().map(|&value| ("if-range", value)));
            assert_eq!(decide_of(false, &lines, SIZE), wanted, "{lines:?}");
        }
        assert_eq!(
            decide_of(false, &[("range", "bytes=99-"), ("if-range", "\"other\"")], SIZE),
            Decision::Whole
        );
        assert_eq!(decide_of(false, &[("if-range", "ETAG")], SIZE), Decision::Whole);
    }

    #[test]
    fn ranges() {
        let huge = "9".repeat(400);
        for (range, size, wanted) in [
            ("bytes=0-1,3-4", SIZE, Decision::Whole),
            ("items=0-1", SIZE, Decision::Whole),
            ("bytes=", SIZE, Decision::Whole),
            ("bytes=-", SIZE, Decision::Whole),
            ("bytes=4-2", SIZE, Decision::Whole),
            ("bytes=\u{e9}-", SIZE, Decision::Whole),
            ("bytes=0-0", SIZE, part(0, 1)),
            ("bytes=2-", SIZE, part(2, 10)),
            ("bytes=2-99", SIZE, part(2, 10)),
            ("bytes=-3", SIZE, part(7, 10)),
            ("bytes=-11", SIZE, part(0, 10)),
            ("bytes=-0", SIZE, Decision::Unsatisfiable),
            ("bytes=-3", 0, Decision::Unsatisfiable),
            ("bytes=0-", 0, Decision::Unsatisfiable),
            ("bytes=10-", SIZE, Decision::Unsatisfiable),
            (&format!("bytes=1-{huge}"), SIZE, part(1, 10)),
            (&format!("bytes={huge}-"), SIZE, Decision::Unsatisfiable),
        ] {
            assert_eq!(decide_of(false, &[("range", range)], size), wanted, "{range} of {size}");
        }
        for size in [0, SIZE] {
            assert_eq!(decide_of(false, &[], size), Decision::Whole);
        }
        let twice = [("range", "bytes=0-1"), ("range", "bytes=0-1")];
        assert_eq!(decide_of(false, &twice, SIZE), Decision::Whole);
    }

    proptest! {
        #[test]
        fn lists_of_other_tags_never_match(tags in prop::collection::vec("(W/)?\"[!#-~]{0,70}\"", 0..6), at in 0_usize..7) {
            let mut tags = tags;
            tags.retain(|tag| !tag.contains(HEX));
            prop_assert_eq!(decide_of(false, &[("if-none-match", &tags.join(", "))], SIZE), Decision::Whole);
            tags.insert(at.min(tags.len()), "ETAG".into());
            prop_assert_eq!(decide_of(false, &[("if-none-match", &tags.join(","))], SIZE), Decision::NotModified);
        }

        #[test]
        fn any_headers_get_an_answer(
            head: bool,
            size: u64,
            lines in prop::collection::vec(("(if-none-match|if-range|range)", "(bytes=|W/|ETAG)?[ -~]{0,40}"), 0..6),
        ) {
            let lines: Vec<_> = lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let decision = decide_of(head, &lines, size);
            if let Decision::Part(range) = decision {
                prop_assert!(range.start < range.end && range.end <= size);
            }
            prop_assert!(!head || matches!(decision, Decision::Whole | Decision::NotModified));
        }
    }
}
