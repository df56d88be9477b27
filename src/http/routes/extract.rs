//! What handlers take out of a request.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;

use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::model::id::ArtifactId;
use crate::model::name::Repository;
use crate::model::principal::Permission;

/// Who asks. The front door has put him into the request.
pub(super) struct Who(pub(super) Arc<Caller>);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().map(Self).ok_or_else(Problem::defect)
    }
}

/// A caller in the repository that the path names. Rights are not checked yet.
pub(super) struct Inside {
    pub(super) caller: Arc<Caller>,
    pub(super) repository: Repository,
}

impl Inside {
    /// Passes when the caller may read here.
    pub(super) fn may_read(self) -> Result<Repository, Problem> {
        self.caller.require(Permission::Read, &self.repository)?;
        Ok(self.repository)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Inside {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Who(caller) = Who::from_request_parts(parts, state).await?;
        let repository = parameter(parts, state, "repository").await?;
        Ok(Self { caller, repository })
    }
}

/// The artifact that the path names.
pub(super) struct Id(pub(super) ArtifactId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        parameter(parts, state, "id").await.map(Self)
    }
}

async fn parameter<T, S>(parts: &mut Parts, state: &S, name: &str) -> Result<T, Problem>
where
    T: std::str::FromStr<Err: std::error::Error>,
    S: Send + Sync,
{
    let malformed = || Problem::invalid(name, "format", format!("the path's {name} is malformed"));
    let parameters = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| Problem::invalid("path", "format", "the path is not UTF-8"))?;
    let text = parameters
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value);
    text.ok_or_else(malformed)?
        .parse()
        .map_err(|error: T::Err| Problem::invalid(name, "format", error.to_string()))
}
