//! The house stands in floors: a module imports only from floors below its own, and some things are done in one place
//! only (docs/ARCHITECTURE.md).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules by floor, from the ground up. Modules of one floor do not know each other.
const FLOORS: [&[&str]; 10] = [
    &["clock", "model"],
    &["config", "wire"],
    &["supervise", "telemetry"],
    &["auth", "catalog", "client", "storage"],
    &["budget", "lease"],
    &[],
    &[],
    &["artifact"],
    &["http"],
    &["cli", "role"],
];

/// Imports within a floor that are meant.
const NEIGHBOURS: [(&str, &str); 3] = [("cli", "role"), ("model", "clock"), ("telemetry", "supervise")];

/// Modules that know less than their floor allows.
const NARROW: [(&str, &[&str]); 4] = [
    ("client", &["model", "wire"]),
    ("auth", &["model", "clock", "config"]),
    ("wire", &["model"]),
    ("storage", &["model", "clock"]),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Every source file with the module of `src/` that it belongs to, and its text without comments.
fn modules() -> Vec<(String, PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let module = |path: &Path| {
        let first = path.strip_prefix(&src).unwrap().components().next().unwrap();
        first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
    };
    let code = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        text.lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    files
        .into_iter()
        .map(|path| (module(&path), path.clone(), code(&path)))
        .collect()
}

/// The modules that a text names as `crate::NAME` or inside `crate::{…}`.
fn imports(code: &str) -> Vec<String> {
    let mut named = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let list = rest
            .strip_prefix('{')
            .map(|list| &list[..list.find("};").unwrap_or(list.len())]);
        let mut depth = 0_i32;
        let mut word = String::new();
        let mut heads = Vec::new();
        for c in list.unwrap_or(rest).chars() {
            if c.is_ascii_alphanumeric() || c == '_' {
                if depth == 0 {
                    word.push(c);
                }
                continue;
            }
            if !word.is_empty() {
                heads.push(std::mem::take(&mut word));
            }
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                // Behind the first `::` come items, up to the next comma of the list.
                ':' if depth == 0 => depth = 1,
                ',' if depth == 1 => depth = 0,
                _ => {}
            }
            if list.is_none() {
                break;
            }
        }
        named.extend(heads.into_iter().take(if list.is_some() { usize::MAX } else { 1 }));
    }
    named
}

#[test]
fn imports_go_down() {
    let floor: BTreeMap<&str, usize> = FLOORS
        .iter()
        .enumerate()
        .flat_map(|(floor, names)| names.iter().map(move |name| (*name, floor)))
        .collect();
    let narrow: BTreeMap<&str, &[&str]> = NARROW.into();
    let mut wrong = Vec::new();
    for (module, path, code) in modules() {
        let Some(own) = floor.get(module.as_str()) else {
            assert!(
                matches!(module.as_str(), "lib" | "main"),
                "{module} has no floor: add it to this test"
            );
            continue;
        };
        for named in imports(&code) {
            let Some(other) = floor.get(named.as_str()) else {
                continue;
            };
            let allowed = named == module || other < own || NEIGHBOURS.contains(&(module.as_str(), named.as_str()));
            let narrow = narrow
                .get(module.as_str())
                .is_none_or(|few| named == module || few.contains(&named.as_str()));
            if !allowed || !narrow {
                wrong.push(format!("{} imports {named}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_one_place_does_it() {
    let rules: [(&str, &str, &[&str]); 6] = [
        (
            "reads the environment",
            "std::env::var",
            &["config/", "client/settings.rs"],
        ),
        ("has SQL", "sqlx::query", &["catalog/"]),
        ("renames", "fs::rename", &["storage/durable.rs", "client/remote.rs"]),
        ("links", "fs::hard_link", &["storage/durable.rs"]),
        ("spawns", "tokio::spawn", &["supervise/task.rs"]),
        ("chooses a status", "StatusCode::from", &["http/"]),
    ];
    let mut wrong = Vec::new();
    for (_, path, code) in modules() {
        let name = path.to_str().unwrap();
        // What stands below the tests' heading is not part of the program.
        let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
        if name.contains("tests") {
            continue;
        }
        for (what, text, places) in rules {
            if code.contains(text) && !places.iter().any(|place| name.contains(&format!("/src/{place}"))) {
                wrong.push(format!("{name} {what}: that belongs to {places:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
