//! What a token says, and whether it says it to us, now.

use std::time::Duration;

use serde::Deserialize;
use time::OffsetDateTime;

/// Without one that has no `Option` a token is no credential. An `Option` is of a token that may be without.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    iss: String,
    aud: Audience,
    /// Seconds since 1970, with a fraction or not.
    exp: f64,
    nbf: Option<f64>,
    pub(super) sub: String,
    pub(super) tenant: String,
    /// Words between spaces. Issuers write null for what is empty.
    pub(super) scope: Option<String>,
    pub(super) roles: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Claims {
    /// Until when the token counts, if it counts now: `exp` and the leeway. Everything that depends on its end takes this one.
    pub(super) fn accepted_until(
        &self,
        issuer: &str,
        audience: &str,
        now: OffsetDateTime,
        leeway: Duration,
    ) -> Option<OffsetDateTime> {
        let is_for_us = match &self.aud {
            Audience::One(one) => one == audience,
            Audience::Many(many) => many.iter().any(|one| one == audience),
        };
        let until = instant(self.exp)?.checked_add(leeway.try_into().ok()?)?;
        let has_begun = match self.nbf {
            Some(nbf) => now + leeway >= instant(nbf)?,
            None => true,
        };
        (self.iss == issuer && is_for_us && has_begun && now < until).then_some(until)
    }
}

/// None: no time that we could write.
fn instant(seconds: f64) -> Option<OffsetDateTime> {
    OffsetDateTime::UNIX_EPOCH.checked_add(time::Duration::checked_seconds_f64(seconds)?)
}
