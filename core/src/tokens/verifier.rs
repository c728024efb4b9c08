//! Who a token is from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::decode_header;

use super::claims::Claims;
use super::key::VerifyingKey;
use super::published::{Published, ReadError, Source};
use super::{KeyError, Refusal};
use crate::clock::Clock;
use crate::config::Auth;
use crate::outbound;
use crate::principal::Principal;
use crate::scope::Scope;

/// Nothing longer is looked at: whoever sends it is not known yet.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Verifies tokens as `auth` says.
#[derive(Debug)]
pub struct Verifier {
    issuer: String,
    audience: String,
    leeway: Duration,
    roles: BTreeMap<String, BTreeSet<Scope>>,
    /// By `kid`; one may be for tokens without.
    configured: HashMap<Option<String>, VerifyingKey>,
    published: Option<Arc<Published>>,
    clock: Clock,
}

impl Verifier {
    /// Reads every key. A set that cannot be read refuses to start: without keys every caller would be told to log in again.
    ///
    /// # Errors
    /// [`KeyError`]: a secret that is too short, a file that is not there or holds something else.
    pub async fn start(settings: &Auth, clock: Clock) -> Result<Self, KeyError> {
        let mut configured = HashMap::new();
        for key in &settings.keys {
            configured.insert(key.kid.clone(), VerifyingKey::configured(key)?);
        }
        let published = match source(settings)? {
            Some(source) => {
                let (algorithms, from) = (settings.jwks_algorithms.clone(), source.to_string());
                let published = Published::start(source, algorithms, clock.clone()).await;
                Some(Arc::new(published.map_err(|error| KeyError::KeySet(from, error))?))
            }
            None => None,
        };
        Ok(Self {
            issuer: settings.issuer.clone().ok_or(KeyError::Missing("issuer"))?,
            audience: settings.audience.clone().ok_or(KeyError::Missing("audience"))?,
            leeway: settings.leeway,
            roles: settings.roles.clone(),
            configured,
            published,
            clock,
        })
    }

    /// # Errors
    /// [`Refusal`]: for a log. Whoever shows the token hears `Authentication`, whatever is wrong.
    pub async fn verify(&self, token: &str) -> Result<Principal, Refusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let header = decode_header(token).map_err(|_| Refusal::NoToken)?;
        if header.crit.is_some() {
            return Err(Refusal::Critical); // it holds only for whoever understands what stands there
        }
        let claims = match self.configured.get(&header.kid) {
            Some(key) => key.verify(token)?,
            None => {
                let kid = header.kid.ok_or(Refusal::NoKid)?;
                let published = self.published.as_ref().ok_or(Refusal::UnknownKid)?;
                published.find(&kid).await.ok_or(Refusal::UnknownKid)?.verify(token)?
            }
        };
        let until = claims.accepted_until(&self.issuer, &self.audience, self.clock.now(), self.leeway)?;
        let scopes = self.scopes(&claims);
        let principal = Principal::new(claims.tenant, claims.sub, scopes).map_err(|_| Refusal::Identifier)?;
        Ok(Principal { expires_at: Some(until), ..principal })
    }

    /// Scopes and roles that nobody here knows give nothing: tokens are made for more services than this one.
    fn scopes(&self, claims: &Claims) -> BTreeSet<Scope> {
        let named = claims.scope.iter().flat_map(|scope| scope.split(' ')).filter_map(|scope| scope.parse().ok());
        let of_roles = claims.roles.iter().flatten().filter_map(|role| self.roles.get(role)).flatten().copied();
        named.chain(of_roles).collect()
    }
}

fn source(settings: &Auth) -> Result<Option<Source>, KeyError> {
    Ok(match (&settings.jwks_file, &settings.jwks_url) {
        (Some(path), _) => Some(Source::File(path.clone())),
        (None, Some(url)) => {
            let client =
                outbound::key_set_client().map_err(|error| KeyError::KeySet("anywhere".into(), ReadError::Url(error)))?;
            Some(Source::Url { client, url: url.clone() })
        }
        (None, None) => None,
    })
}
