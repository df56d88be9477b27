//! Keys and what they allow. Decisions only: nothing here does I/O.

mod caller;
mod keys;

pub use caller::{Caller, Grant};
pub use keys::{BadKeysFile, KeyRing};

use crate::model::failure::{Classify, Kind};

/// The shortest and the longest secret that can be a credential (docs/spec/http-api.md 2.1).
pub const SECRET_LENGTH: std::ops::RangeInclusive<usize> = 32..=512;

/// Why a credential or a right is not good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request carries no credential.
    #[error("this needs a credential: Authorization: Bearer <key>")]
    Missing,
    /// The credential is unknown or has the wrong shape.
    #[error("the credential is not valid here")]
    Invalid,
    /// The caller may not do this in this repository.
    #[error("the credential does not allow this in this repository")]
    NotAllowed,
}

impl Classify for Refusal {
    fn kind(&self) -> Kind {
        match self {
            Self::Missing | Self::Invalid => Kind::Unauthorized,
            Self::NotAllowed => Kind::Forbidden,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Missing => "credential_missing",
            Self::Invalid => "credential_invalid",
            Self::NotAllowed => "permission_missing",
        })
    }
}

/// Takes the secret out of the `Authorization` values of a request. Only `Bearer` is a credential here
/// (docs/spec/http-api.md 2.1), and with two values it is not clear who asks.
///
/// Fails with [`Refusal::Missing`] when there is none, otherwise with [`Refusal::Invalid`].
pub fn bearer<'a>(authorization: impl IntoIterator<Item = &'a [u8]>) -> Result<&'a str, Refusal> {
    let mut values = authorization.into_iter();
    let value = values.next().ok_or(Refusal::Missing)?;
    if values.next().is_some() {
        return Err(Refusal::Invalid);
    }
    let value = std::str::from_utf8(value).map_err(|_| Refusal::Invalid)?;
    let (scheme, secret) = value.split_once(' ').ok_or(Refusal::Invalid)?;
    let secret = secret.trim_matches(' ');
    let well_formed = scheme.eq_ignore_ascii_case("bearer")
        && SECRET_LENGTH.contains(&secret.len())
        && secret.bytes().all(|c| c.is_ascii_graphic());
    if well_formed { Ok(secret) } else { Err(Refusal::Invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_of_the_right_length() {
        let secret = "s".repeat(32);
        assert_eq!(bearer(Some(format!("Bearer {secret}").as_bytes())), Ok(&*secret));
        assert_eq!(bearer(Some(format!("bearer  {secret}").as_bytes())), Ok(&*secret));
        assert_eq!(bearer(None), Err(Refusal::Missing));
        let good = format!("Bearer {secret}");
        assert_eq!(
            bearer([good.as_bytes(), good.as_bytes()]),
            Err(Refusal::Invalid),
            "two credentials"
        );
        for bad in [
            String::new(),
            "Bearer".into(),
            "Bearer ".into(),
            format!("Basic {secret}"),
            format!("Bearer {}", "s".repeat(31)),
            format!("Bearer {}", "s".repeat(513)),
            format!("Bearer {secret} x"),
            format!("Bearer {secret}ü"),
        ] {
            assert_eq!(bearer(Some(bad.as_bytes())), Err(Refusal::Invalid), "{bad}");
        }
        assert_eq!(bearer(Some(&b"Bearer \xff"[..])), Err(Refusal::Invalid));
    }
}
