//! `REPOSITORY/PATH` as an argument.

use std::str::FromStr;

use crate::model::name::{AssetPath, BadName, Repository};

/// A path in a repository.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) repository: Repository,
    pub(super) path: AssetPath,
}

impl FromStr for Target {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let (repository, path) = text.split_once('/').ok_or(BadName::Path)?;
        Ok(Self {
            repository: repository.parse()?,
            path: path.parse()?,
        })
    }
}
