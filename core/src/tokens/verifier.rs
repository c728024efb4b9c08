//! Who a token is from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::decode_header;

use super::KeyError;
use super::claims::Claims;
use super::key::VerifyingKey;
use super::published::{Published, ReadError, Source};
use crate::clock::Clock;
use crate::config::Auth;
use crate::error::Error;
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
            Some(source) => Some(Arc::new(Published::start(source, settings.jwks_algorithms.clone(), clock.clone()).await?)),
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
    /// `Authentication`, whatever is wrong.
    pub async fn verify(&self, token: &str) -> Result<Principal, Error> {
        self.principal(token).await.ok_or(Error::Authentication)
    }

    async fn principal(&self, token: &str) -> Option<Principal> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let header = decode_header(token).ok()?;
        if header.crit.is_some() {
            return None; // it holds only for whoever understands what stands there
        }
        let claims = match self.configured.get(&header.kid) {
            Some(key) => key.verify(token)?,
            None => self.published.as_ref()?.find(&header.kid?).await?.verify(token)?,
        };
        let until = claims.accepted_until(&self.issuer, &self.audience, self.clock.now(), self.leeway)?;
        let scopes = self.scopes(&claims);
        let principal = Principal::new(claims.tenant, claims.sub, scopes).ok()?;
        Some(Principal { expires_at: Some(until), ..principal })
    }

    /// Scopes and roles that nobody here knows give nothing: tokens are made for more services than this one.
    fn scopes(&self, claims: &Claims) -> BTreeSet<Scope> {
        let named = claims.scope.iter().flat_map(|scope| scope.split(' ')).filter_map(|scope| scope.parse().ok());
        let of_roles = claims.roles.iter().flatten().filter_map(|role| self.roles.get(role)).flatten().copied();
        named.chain(of_roles).collect()
    }
}

fn source(settings: &Auth) -> Result<Option<Source>, ReadError> {
    Ok(match (&settings.jwks_file, &settings.jwks_url) {
        (Some(path), _) => Some(Source::File(path.clone())),
        (None, Some(url)) => Some(Source::Url { client: outbound::key_set_client().map_err(ReadError::Url)?, url: url.clone() }),
        (None, None) => None,
    })
}
