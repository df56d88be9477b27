//! Reads the Prometheus text format, strictly.

use std::collections::{BTreeMap, BTreeSet};

use super::process::Process;
use super::site::key;

/// One scrape.
pub(crate) struct Scrape {
    samples: Vec<Sample>,
    /// Name and type of each family.
    pub(crate) families: BTreeMap<String, String>,
    /// As it came.
    pub(crate) text: String,
}

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Scrape {
    /// Scrapes a process.
    pub(crate) async fn of(process: &Process) -> Self {
        let answer = process.get("/health/metrics").key(key::HEALTH).answer().await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.header("content-type"),
            "text/plain; version=0.0.4; charset=utf-8"
        );
        Self::parse(answer.text())
    }

    /// Reads `text`; every sample must belong to a family whose type was told before.
    pub(crate) fn parse(text: &str) -> Self {
        let mut families = BTreeMap::new();
        let mut samples = Vec::new();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                match (words.next(), words.next(), words.next()) {
                    (Some("TYPE"), Some(name), Some(kind)) => {
                        assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                        assert!(
                            families.insert(name.to_owned(), kind.to_owned()).is_none(),
                            "twice: {line}"
                        );
                    }
                    (Some("HELP"), Some(_), Some(_)) => {}
                    _ => panic!("not of version 0.0.4: {line}"),
                }
                continue;
            }
            let sample = Sample::parse(line);
            let endings = ["", "_bucket", "_sum", "_count"];
            let known = endings.iter().any(|ending| {
                sample
                    .name
                    .strip_suffix(ending)
                    .is_some_and(|n| families.contains_key(n))
            });
            assert!(known, "no TYPE before {line}");
            assert!(
                seen.insert((sample.name.clone(), sample.labels.clone())),
                "twice: {line}"
            );
            samples.push(sample);
        }
        Self {
            samples,
            families,
            text: text.to_owned(),
        }
    }

    /// The sum of all samples of `name` whose labels include `labels`; `None` if there is none.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |sample: &&Sample| {
            let has = |(name, value): &(&str, &str)| sample.labels.get(*name).is_some_and(|found| found == value);
            sample.name == name && labels.iter().all(has)
        };
        let mut found = self.samples.iter().filter(fits).map(|sample| sample.value).peekable();
        found.peek()?;
        Some(found.sum())
    }

    /// Upper bounds of a histogram's buckets but the last one, from the lowest.
    pub(crate) fn bounds(&self, name: &str) -> Vec<f64> {
        let bucket = format!("{name}_bucket");
        let of_it = self.samples.iter().filter(|sample| sample.name == bucket);
        let mut bounds: Vec<f64> = of_it.filter_map(|sample| sample.labels["le"].parse().ok()).collect();
        bounds.retain(|bound| bound.is_finite());
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        bounds
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let value = match value {
            "+Inf" => f64::INFINITY,
            other => other.parse().unwrap_or_else(|_| panic!("no number: {line}")),
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(
            name.starts_with("arkvory_") && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'),
            "{line}"
        );
        let mut rest = labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
        let mut labels = BTreeMap::new();
        while !rest.is_empty() {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{line}"));
            assert!(!value.contains('\\'), "no value needs escaping: {line}");
            assert!(labels.insert(label.to_owned(), value.to_owned()).is_none(), "{line}");
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        Self {
            name: name.to_owned(),
            labels,
            value,
        }
    }
}
