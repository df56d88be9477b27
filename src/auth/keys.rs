use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use super::{Caller, Grant, Refusal};
use crate::model::digest::Digest;
use crate::model::name::Repository;
use crate::model::principal::{Permission, PrincipalId};

/// Prefix of managed service keys, which are never looked up here (docs/spec/http-api.md 2.10).
const MANAGED_PREFIX: &str = "arkvory_";

/// All keys of the keys file (docs/spec/environment.md 4.6), found by the digest of their secret.
#[derive(Debug)]
pub struct KeyRing(Vec<(Digest, Arc<Caller>)>);

/// Why a keys file is refused. Names the variable and the entry, never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeysFile {
    /// Larger than allowed.
    #[error("Invalid ARKVORY_KEYS_FILE: the file is larger than 1 MiB")]
    TooLarge,
    /// Not JSON of the right shape.
    #[error("Invalid ARKVORY_KEYS_FILE: not a JSON array of keys (line {line}, column {column})")]
    Shape {
        /// Line of the mistake, from 1.
        line: usize,
        /// Column of the mistake.
        column: usize,
    },
    /// No keys, or too many.
    #[error("Invalid ARKVORY_KEYS_FILE: it must hold 1 to 1000 keys")]
    Count,
    /// One entry is wrong.
    #[error("Invalid ARKVORY_KEYS_FILE: entry {entry}: {what}")]
    Entry {
        /// Which entry, from 0.
        entry: usize,
        /// What its rule is.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    id: String,
    sha256: String,
    repositories: BTreeSet<String>,
    permissions: BTreeSet<Permission>,
    #[serde(default)]
    administrator: bool,
    #[serde(default)]
    service_administrator: bool,
}

impl KeyRing {
    /// The largest keys file, in bytes (docs/spec/environment.md 4.5).
    pub const LARGEST_FILE: usize = 1024 * 1024;

    /// Reads the text of a keys file.
    pub fn parse(text: &str) -> Result<Self, BadKeysFile> {
        if text.len() > Self::LARGEST_FILE {
            return Err(BadKeysFile::TooLarge);
        }
        let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| BadKeysFile::Shape {
            line: error.line(),
            column: error.column(),
        })?;
        if !(1..=1000).contains(&entries.len()) {
            return Err(BadKeysFile::Count);
        }
        let mut seen = BTreeSet::new();
        let mut keys = Vec::with_capacity(entries.len());
        for (number, entry) in entries.into_iter().enumerate() {
            let wrong = |what| BadKeysFile::Entry { entry: number, what };
            let (digest, caller) = entry.check().map_err(wrong)?;
            if !seen.insert(digest) {
                return Err(wrong("sha256 stands in the file twice"));
            }
            keys.push((digest, Arc::new(caller)));
        }
        Ok(Self(keys))
    }

    /// Who holds this secret. Compares with every key, so that the time tells nothing about which one it is.
    pub fn identify(&self, secret: &str) -> Result<Arc<Caller>, Refusal> {
        if secret.starts_with(MANAGED_PREFIX) {
            return Err(Refusal::Invalid);
        }
        let asked = Digest::of(secret);
        let mut found = None;
        for (digest, caller) in &self.0 {
            if bool::from(digest.as_bytes().ct_eq(asked.as_bytes())) {
                found = Some(caller);
            }
        }
        found.cloned().ok_or(Refusal::Invalid)
    }

    /// Every principal of the file, each once.
    pub fn principals(&self) -> BTreeSet<PrincipalId> {
        self.0.iter().map(|(_, caller)| caller.principal.clone()).collect()
    }
}

impl Entry {
    fn check(self) -> Result<(Digest, Caller), &'static str> {
        let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-');
        if !(1..=128).contains(&self.id.len()) || !self.id.bytes().all(plain) {
            return Err("id has 1 to 128 of A-Z, a-z, 0-9, _, . and -");
        }
        let digest = self
            .sha256
            .parse()
            .map_err(|_| "sha256 has 64 lower-case hexadecimal digits")?;
        let permissions = Arc::new(self.permissions);
        let mut grants = Vec::with_capacity(self.repositories.len());
        for repository in self.repositories {
            let repository: Repository = repository
                .parse()
                .map_err(|_| "repositories lists names of a-z, 0-9, _ and -")?;
            grants.push(Grant {
                repository,
                permissions: permissions.clone(),
            });
        }
        grants.sort_by(|a, b| a.repository.cmp(&b.repository));
        Ok((
            digest,
            Caller {
                principal: PrincipalId::new(self.id),
                administrator: self.administrator,
                service_administrator: self.service_administrator,
                grants: grants.into(),
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, secret: &str, more: &str) -> String {
        format!(
            r#"{{"id":"{id}","sha256":"{}","repositories":["releases","a"],"permissions":["read"]{more}}}"#,
            Digest::of(secret)
        )
    }

    #[test]
    fn finds_the_holder_and_his_rights() {
        let ring = KeyRing::parse(&format!(
            "[{},{}]",
            entry("ci", "one", ""),
            entry("ci", "two", r#","administrator":true"#)
        ))
        .unwrap();
        let caller = ring.identify("two").unwrap();
        assert!(caller.administrator);
        assert_eq!(ring.principals().len(), 1, "several keys may share one id");
        caller.require(Permission::Read, &"releases".parse().unwrap()).unwrap();
        for (permission, repository) in [(Permission::Write, "releases"), (Permission::Read, "other")] {
            assert_eq!(
                caller.require(permission, &repository.parse().unwrap()),
                Err(Refusal::NotAllowed)
            );
        }
        assert_eq!(ring.identify("three").unwrap_err(), Refusal::Invalid);
    }

    #[test]
    fn managed_keys_are_not_looked_up() {
        let secret = "arkvory_0b4f7a52.secret";
        let ring = KeyRing::parse(&format!("[{}]", entry("x", secret, ""))).unwrap();
        assert_eq!(ring.identify(secret).unwrap_err(), Refusal::Invalid);
    }

    #[test]
    fn a_health_key_has_no_rights() {
        let text = format!(
            r#"[{{"id":"h","sha256":"{}","repositories":[],"permissions":[]}}]"#,
            Digest::of("s")
        );
        assert!(KeyRing::parse(&text).unwrap().identify("s").unwrap().grants.is_empty());
    }

    #[test]
    fn mistakes_name_the_entry_and_no_value() {
        let good = entry("ci", "one", "");
        let long = "x".repeat(129);
        for (text, wanted) in [
            ("[]".into(), "1 to 1000"),
            ("{}".into(), "JSON array"),
            ("[{}]".into(), "JSON array"),
            (format!("[{good},{good}]"), "entry 1: sha256 stands"),
            (format!("[{}]", entry("", "one", "")), "entry 0: id"),
            (format!("[{}]", entry("a b", "one", "")), "entry 0: id"),
            (format!("[{}]", entry(&long, "one", "")), "entry 0: id"),
            (
                format!("[{}]", good.replace("releases", "Releases")),
                "entry 0: repositories",
            ),
            (format!("[{}]", good.replace("[\"read\"]", "[\"rule\"]")), "JSON array"),
            (format!("[{}]", entry("ci", "one", r#","extra":1"#)), "JSON array"),
            (good.replace("{\"id\"", "[{\"sha\""), "JSON array"),
            ("[".to_owned() + &" ".repeat(KeyRing::LARGEST_FILE), "1 MiB"),
        ] {
            let message = KeyRing::parse(&text).unwrap_err().to_string();
            assert!(
                message.starts_with("Invalid ARKVORY_KEYS_FILE") && message.contains(wanted),
                "{message}"
            );
        }
        let upper = good.replace(
            &Digest::of("one").to_string(),
            &Digest::of("one").to_string().to_uppercase(),
        );
        assert!(
            KeyRing::parse(&format!("[{upper}]"))
                .unwrap_err()
                .to_string()
                .contains("sha256")
        );
    }
}
