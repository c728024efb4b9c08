//! What a token says, and whether it says it to us, now.

use std::time::Duration;

use serde::Deserialize;
use time::OffsetDateTime;

use super::Refusal;

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
    /// The claims without which a token is none.
    pub(super) const NEEDED: [&str; 5] = ["iss", "aud", "exp", "sub", "tenant"];

    /// Until when the token counts, if it counts now: `exp` and the leeway. Everything that depends on its end takes this one.
    pub(super) fn accepted_until(
        &self,
        issuer: &str,
        audience: &str,
        now: OffsetDateTime,
        leeway: Duration,
    ) -> Result<OffsetDateTime, Refusal> {
        let is_for_us = match &self.aud {
            Audience::One(one) => one == audience,
            Audience::Many(many) => many.iter().any(|one| one == audience),
        };
        let end = instant(self.exp).and_then(|end| end.checked_add(leeway.try_into().ok()?));
        let until = end.ok_or(Refusal::NoTime)?;
        let has_begun = match self.nbf {
            Some(nbf) => now + leeway >= instant(nbf).ok_or(Refusal::NoTime)?,
            None => true,
        };
        for (holds, refusal) in [
            (self.iss == issuer, Refusal::Issuer),
            (is_for_us, Refusal::Audience),
            (has_begun, Refusal::NotYet),
            (now < until, Refusal::Expired),
        ] {
            if !holds {
                return Err(refusal);
            }
        }
        Ok(until)
    }
}

/// None: no time that we could write.
fn instant(seconds: f64) -> Option<OffsetDateTime> {
    OffsetDateTime::UNIX_EPOCH.checked_add(time::Duration::checked_seconds_f64(seconds)?)
}
