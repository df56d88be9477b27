//! The options behind the `?` of a request.

use std::str::FromStr;

use super::problem::Problem;
use crate::model::number::canonical;

/// Options that a route knows, each at most once.
#[derive(Debug)]
pub(super) struct Options(Vec<(&'static str, String)>);

impl Options {
    /// Reads `query`; a name that is not `known` is passed over.
    pub(super) fn lenient(query: Option<&str>, known: &[&'static str]) -> Result<Self, Problem> {
        Self::read(query, known, |_| Ok(()))
    }

    /// Reads `query`; a name that is not `known` is refused (the routes of docs/spec/http-api.md 2.1).
    pub(super) fn strict(query: Option<&str>, known: &[&'static str]) -> Result<Self, Problem> {
        let text = "the request has an option that is not known here";
        Self::read(query, known, |_| Err(Problem::invalid("query", "unknown_field", text)))
    }

    fn read(
        query: Option<&str>,
        known: &[&'static str],
        unknown: impl Fn(&str) -> Result<(), Problem>,
    ) -> Result<Self, Problem> {
        let query = query.unwrap_or_default();
        if percent_encoding::percent_decode_str(query).decode_utf8().is_err() {
            return Err(Problem::invalid(
                "query",
                "format",
                "the request's options are not UTF-8",
            ));
        }
        let mut options: Vec<(&'static str, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(name) = known.iter().copied().find(|known| *known == name) else {
                unknown(&name)?;
                continue;
            };
            if options.iter().any(|(other, _)| *other == name) {
                return Err(Problem::invalid(
                    name,
                    "invalid",
                    "an option stands in the request twice",
                ));
            }
            options.push((name, value.into_owned()));
        }
        Ok(Self(options))
    }

    /// The text of an option, if it is there.
    pub(super) fn text(&self, name: &'static str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of an option, if it is there.
    pub(super) fn value<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| Problem::invalid(name, "format", "an option has a malformed value"))
        };
        self.text(name).map(parse).transpose()
    }

    /// The value of an option that must be there.
    pub(super) fn required<T: FromStr>(&self, name: &'static str) -> Result<T, Problem> {
        self.value(name)?
            .ok_or_else(|| Problem::invalid(name, "required", "an option is missing"))
    }

    /// How many rows a page may have: `limit`, 1 to `most`.
    pub(super) fn limit(&self, default: u32, most: u32) -> Result<u32, Problem> {
        let limit = match self.text("limit") {
            None => default,
            Some(text) => {
                canonical(text).ok_or_else(|| Problem::invalid("limit", "format", "limit is a whole number"))?
            }
        };
        if (1..=most).contains(&limit) {
            Ok(limit)
        } else {
            Err(Problem::invalid(
                "limit",
                "range",
                format!("limit lies between 1 and {most}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_it_knows() {
        let options = Options::strict(Some("path=a%2Fb+c&limit=7"), &["path", "limit"]).unwrap();
        assert_eq!(options.text("path"), Some("a/b c"));
        assert_eq!(options.limit(50, 100).unwrap(), 7);
        assert_eq!(options.value::<u32>("after").unwrap(), None);
        assert!(Options::strict(Some("other=1"), &["path"]).is_err());
        assert!(
            Options::lenient(Some("other=1"), &["path"])
                .unwrap()
                .text("path")
                .is_none()
        );
        assert!(Options::strict(Some("path=1&path=2"), &["path"]).is_err());
        assert!(Options::strict(Some("path=%ff"), &["path"]).is_err());
        assert!(
            Options::strict(None, &["path"])
                .unwrap()
                .required::<String>("path")
                .is_err()
        );
    }

    #[test]
    fn limits() {
        for (text, good) in [
            ("1", true),
            ("100", true),
            ("0", false),
            ("101", false),
            ("+1", false),
            ("01", false),
            ("", false),
            ("1e1", false),
        ] {
            let options = Options::strict(Some(&format!("limit={text}")), &["limit"]).unwrap();
            assert_eq!(options.limit(50, 100).is_ok(), good, "{text}");
        }
    }
}
