use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{Method, StatusCode};

use super::*;
use crate::clock::{Clock as _, TestClock};
use crate::model::member::Slot;

fn metrics() -> Metrics {
    Metrics::new(TestClock::default().now())
}

fn facts() -> Facts {
    Facts {
        lease: Some(LeaseFacts {
            slot: Slot::new(3).unwrap(),
            slots: 16,
            generation: 7,
            age: Duration::from_millis(1500),
            left: Duration::from_millis(6500),
        }),
        download: DownloadFacts {
            total: Some(1 << 30),
            share: 1 << 26,
            granted: 5_000_000_000,
            waiting: 4,
        },
        open_artifacts: 2,
        tasks: vec![("lease", 1), ("connection", 0)],
        cached_reads: 1,
        blocking_reads: 0,
        log_lines_dropped: 9,
        trace_exports_failed: Some(1),
        ownership_probe_age: Some(Duration::from_secs(1)),
    }
}

/// Reads the text format 0.0.4 and complains about everything that isn't in it. Samples by name and labels.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
            && !name.is_empty()
            && !name.as_bytes()[0].is_ascii_digit()
    };
    let mut samples = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut family = (String::new(), String::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            let [kind, name, rest] = words[..] else {
                panic!("{line}")
            };
            assert!(is_name(name), "{line}");
            match kind {
                "HELP" => assert!(seen.insert(name.to_owned()), "{name} twice"),
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&rest), "{line}");
                    assert!(seen.contains(name));
                    family = (name.to_owned(), rest.to_owned());
                }
                other => panic!("{other} is not in this format"),
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = key.split_once('{').map_or((key, ""), |(name, labels)| (name, labels));
        assert!(is_name(name), "{line}");
        let suffix = name
            .strip_prefix(&family.0)
            .unwrap_or_else(|| panic!("{line} is not of {family:?}"));
        match family.1.as_str() {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            "counter" => assert!(suffix.is_empty() && name.ends_with("_total"), "{line}"),
            _ => assert!(suffix.is_empty() && !name.ends_with("_total"), "{line}"),
        }
        for label in labels
            .trim_end_matches('}')
            .split(',')
            .filter(|label| !label.is_empty())
        {
            let (name, value) = label.split_once('=').unwrap();
            assert!(
                is_name(name) && value.starts_with('"') && value.ends_with('"'),
                "{line}"
            );
        }
        assert_eq!(
            samples.insert(key.to_owned(), value.parse().unwrap()),
            None,
            "{key} twice"
        );
    }
    samples
}

#[test]
fn every_metric_has_its_name_and_value() {
    let metrics = metrics();
    metrics.request(Request {
        method: &Method::GET,
        route: Some("/api/v1/artifacts/{id}/content"),
        status: StatusCode::PARTIAL_CONTENT,
        duration: Duration::from_millis(20),
        received: 100,
        sent: 2000,
    });
    metrics.request(Request {
        method: &Method::from_bytes(b"BREW").unwrap(),
        route: None,
        status: StatusCode::NOT_FOUND,
        duration: Duration::from_secs(2000),
        received: 1,
        sent: 2,
    });
    metrics.renewal(Duration::from_millis(7));
    metrics.download(Outcome::Aborted);
    let _request = metrics.in_flight();
    let _transfer = metrics.transfer(Direction::Download);
    let text = metrics.render(&facts());
    let samples = parse(&text);
    let content = r#"method="GET",route="/api/v1/artifacts/{id}/content""#;
    for (name, value) in [
        (
            format!("arkvory_http_requests_total{{{content},status_class=\"2xx\"}}"),
            1.0,
        ),
        (
            r#"arkvory_http_requests_total{method="other",route="unmatched",status_class="4xx"}"#.into(),
            1.0,
        ),
        (format!("arkvory_http_request_bytes_total{{{content}}}"), 100.0),
        (format!("arkvory_http_response_bytes_total{{{content}}}"), 2000.0),
        (
            format!("arkvory_http_request_duration_seconds_count{{{content},status_class=\"2xx\"}}"),
            1.0,
        ),
        ("arkvory_http_requests_in_flight".into(), 1.0),
        (r#"arkvory_transfer_active{direction="download"}"#.into(), 1.0),
        (r#"arkvory_transfer_active{direction="upload"}"#.into(), 0.0),
        (
            format!("arkvory_build_info{{service=\"arkvory\",version=\"{VERSION}\"}}"),
            1.0,
        ),
        ("arkvory_process_start_time_seconds".into(), 1_800_000_000.0),
        ("arkvory_gateway_slot".into(), 3.0),
        ("arkvory_gateway_slots".into(), 16.0),
        ("arkvory_gateway_generation".into(), 7.0),
        ("arkvory_gateway_lease_age_seconds".into(), 1.5),
        ("arkvory_gateway_lease_left_seconds".into(), 6.5),
        ("arkvory_gateway_renewal_duration_seconds_count".into(), 1.0),
        ("arkvory_download_total_bytes_per_second".into(), 1_073_741_824.0),
        ("arkvory_download_share_bytes_per_second".into(), 67_108_864.0),
        ("arkvory_download_granted_bytes_total".into(), 5_000_000_000.0),
        ("arkvory_download_waiting_quanta".into(), 4.0),
        ("arkvory_open_artifacts".into(), 2.0),
        (r#"arkvory_tasks{kind="lease"}"#.into(), 1.0),
        ("arkvory_log_lines_dropped_total".into(), 9.0),
        ("arkvory_trace_exports_failed_total".into(), 1.0),
        (
            r#"arkvory_metrics_collection_failures_total{collector="memory"}"#.into(),
            0.0,
        ),
        (r#"arkvory_downloads_total{outcome="aborted"}"#.into(), 1.0),
        (r#"arkvory_downloads_total{outcome="failed"}"#.into(), 0.0),
        (r#"arkvory_download_reads_total{how="cached"}"#.into(), 1.0),
        ("arkvory_ownership_probe_age_seconds".into(), 1.0),
    ] {
        assert_eq!(samples.get(&name), Some(&value), "{name} in\n{text}");
    }
    for positive in ["arkvory_process_resident_memory_bytes", "arkvory_process_open_fds"] {
        assert!(samples[positive] > 2.0, "{positive}");
    }
}

#[test]
fn the_buckets_are_those_of_the_specification() {
    let metrics = metrics();
    metrics.request(Request {
        method: &Method::GET,
        route: Some("/x"),
        status: StatusCode::OK,
        duration: Duration::from_millis(20),
        received: 0,
        sent: 0,
    });
    let text = metrics.render(&Facts::default());
    let bounds = |name: &str| {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}_bucket")));
        let bound = |line: &str| {
            let (_, rest) = line.split_once("le=\"").unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        let (bounds, counts): (Vec<_>, Vec<u64>) = lines
            .map(|line| (bound(line), line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()))
            .unzip();
        assert!(counts.is_sorted());
        assert_eq!(bounds.last().map(String::as_str), Some("+Inf"));
        bounds[..bounds.len() - 1]
            .iter()
            .map(|bound| bound.parse::<f64>().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(bounds("arkvory_http_request_duration_seconds"), REQUEST_SECONDS);
    assert_eq!(bounds("arkvory_gateway_renewal_duration_seconds"), RENEWAL_SECONDS);
}

#[test]
fn what_does_not_exist_makes_no_metric() {
    let samples = parse(&metrics().render(&Facts::default()));
    for name in [
        "arkvory_gateway_slot",
        "arkvory_gateway_lease_left_seconds",
        "arkvory_download_total_bytes_per_second",
        "arkvory_ownership_probe_age_seconds",
        "arkvory_trace_exports_failed_total",
    ] {
        assert!(!samples.contains_key(name), "{name}");
    }
    assert!(samples.contains_key("arkvory_download_share_bytes_per_second"));
}

#[test]
fn guards_count_down() {
    let metrics = metrics();
    let in_flight = || parse(&metrics.render(&Facts::default())).remove("arkvory_http_requests_in_flight");
    let one = metrics.in_flight();
    let two = metrics.in_flight();
    drop(one);
    assert_eq!(in_flight(), Some(1.0));
    drop(two);
    assert_eq!(in_flight(), Some(0.0));
}

#[test]
fn labels_are_bounded() {
    let metrics = metrics();
    let long = "\"\\\n".repeat(500);
    metrics.request(Request {
        method: &Method::GET,
        route: Some(&long),
        status: StatusCode::OK,
        duration: Duration::ZERO,
        received: 0,
        sent: 0,
    });
    let text = metrics.render(&Facts::default());
    assert!(text.lines().all(|line| line.len() < 400), "{text}");
    assert!(text.contains(r#"route="\"\\\n\""#), "{text}");
}
