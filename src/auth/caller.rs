use std::collections::BTreeSet;
use std::sync::Arc;

use super::Refusal;
use crate::model::name::Repository;
use crate::model::principal::{Permission, PrincipalId};

/// What one credential may do in one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Where.
    pub repository: Repository,
    /// What.
    pub permissions: Arc<BTreeSet<Permission>>,
}

/// Who asks, as far as his credential tells.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whom transfers are charged to, and who owns what is published.
    pub principal: PrincipalId,
    /// Manages users, groups and audit; gives no right on contents by itself (docs/spec/http-api.md 2.9).
    pub administrator: bool,
    /// Creates service accounts and delegations.
    pub service_administrator: bool,
    /// Rights by repository, sorted by its name.
    pub grants: Arc<[Grant]>,
}

impl Caller {
    /// Passes when the caller has `permission` in `repository`.
    pub fn require(&self, permission: Permission, repository: &Repository) -> Result<(), Refusal> {
        let grant = self.grants.binary_search_by(|grant| grant.repository.cmp(repository));
        match grant {
            Ok(at) if self.grants[at].permissions.contains(&permission) => Ok(()),
            _ => Err(Refusal::NotAllowed),
        }
    }
}
