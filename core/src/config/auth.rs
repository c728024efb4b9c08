//! Settings of authentication, and what they must be together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as human;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::ConfigError;
use crate::closed_set::closed_set;
use crate::scope::Scope;

/// More would let tokens work that have long expired.
const LEEWAY_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    pub mode: AuthMode,
    /// `iss` of every token, exactly.
    pub issuer: Option<String>,
    /// What `aud` of every token is, or holds.
    pub audience: Option<String>,
    /// How far our clock and the issuer's may be apart.
    #[serde(with = "human")]
    pub leeway: Duration,
    /// Scopes of each role; a file adds to those shipped, or replaces one. A role that is not here gives none.
    pub roles: BTreeMap<String, BTreeSet<Scope>>,
    pub keys: Vec<AuthKey>,
    /// A JSON Web Key Set; from one place.
    pub jwks_file: Option<PathBuf>,
    pub jwks_url: Option<String>,
    /// What the keys of the set may be for. Each key is for one of them, by its type.
    pub jwks_algorithms: Vec<Algorithm>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// One fixed principal with every scope and no credential; loopback only.
    #[default]
    Dev,
    /// Signed tokens.
    Jwt,
}

closed_set! {
    /// The algorithms that a key may be for.
    Algorithm {
        Hs256 = "HS256",
        Rs256 = "RS256",
        Es256 = "ES256",
        EdDsa = "EdDSA",
    }
}

/// One key, with the one algorithm that it is for: what a token says about either counts for nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthKey {
    /// The name by which tokens ask for it; a key without one is for tokens that name none.
    pub kid: Option<String>,
    pub algorithm: Algorithm,
    /// Of HS256: at least 32 bytes. Read, and never written.
    #[serde(default, skip_serializing)]
    pub secret: Option<SecretString>,
    /// The same in a file, whose last line break does not count.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Of the other algorithms: PEM.
    #[serde(default)]
    pub public_key_file: Option<PathBuf>,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            mode: AuthMode::default(),
            issuer: None,
            audience: None,
            leeway: LEEWAY_MAX,
            roles: shipped_roles(),
            keys: Vec::new(),
            jwks_file: None,
            jwks_url: None,
            jwks_algorithms: Vec::new(),
        }
    }
}

fn shipped_roles() -> BTreeMap<String, BTreeSet<Scope>> {
    use Scope::{
        AgentRead, ApprovalRead, ApprovalResolve, ArtifactRead, ArtifactWrite, OperatorRead, RunCancel, RunRead, RunWrite,
        SessionRead, SessionWrite,
    };
    let reading = [SessionRead, RunRead, ArtifactRead, AgentRead, ApprovalRead];
    let role = |name: &str, more: &[Scope]| (name.to_owned(), reading.iter().chain(more).copied().collect());
    [
        role("member", &[SessionWrite, RunWrite, RunCancel, ArtifactWrite]),
        role("approver", &[ApprovalResolve]),
        role("operator", &[OperatorRead]),
    ]
    .into()
}

impl Auth {
    /// What can be said before any file is read.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key, problem| Err(ConfigError::Invalid { key, problem });
        if self.mode == AuthMode::Dev {
            return Ok(());
        }
        if self.issuer.as_ref().is_none_or(String::is_empty) {
            return invalid("auth.issuer", "is needed by `auth.mode = jwt`");
        }
        if self.audience.as_ref().is_none_or(String::is_empty) {
            return invalid("auth.audience", "is needed by `auth.mode = jwt`");
        }
        if self.leeway > LEEWAY_MAX {
            return invalid("auth.leeway", "must be at most 30 s, or expired tokens go on working");
        }
        let publishes = self.jwks_file.is_some() || self.jwks_url.is_some();
        if self.keys.is_empty() && !publishes {
            return invalid(
                "auth.keys",
                "must hold a key, or `auth.jwks_file` or `auth.jwks_url` be given: `auth.mode = jwt` needs one",
            );
        }
        if self.jwks_file.is_some() && self.jwks_url.is_some() {
            return invalid("auth.jwks_url", "and `auth.jwks_file` cannot both be where keys come from");
        }
        if publishes && self.jwks_algorithms.is_empty() {
            return invalid("auth.jwks_algorithms", "must say what the keys of the set are for");
        }
        if self.jwks_algorithms.contains(&Algorithm::Hs256) {
            return invalid("auth.jwks_algorithms", "must not hold HS256: what is published is no secret");
        }
        if self.jwks_url.as_ref().is_some_and(|url| !is_trustworthy(url)) {
            return invalid("auth.jwks_url", "must be an https address (http on loopback only) without credentials");
        }
        let names: BTreeSet<Option<&str>> = self.keys.iter().map(|key| key.kid.as_deref()).collect();
        if names.len() != self.keys.len() {
            return invalid("auth.keys", "must differ in their `kid`, and only one may have none");
        }
        self.keys.iter().try_for_each(AuthKey::check)
    }
}

impl AuthKey {
    fn check(&self) -> Result<(), ConfigError> {
        let given = (self.secret.is_some(), self.secret_file.is_some(), self.public_key_file.is_some());
        let problem = match (self.algorithm, given) {
            (Algorithm::Hs256, (true, false, false) | (false, true, false)) => return Ok(()),
            (Algorithm::Hs256, _) => "with HS256 needs one of `secret` and `secret_file`, and no `public_key_file`",
            (_, (false, false, true)) => return Ok(()),
            _ => "with RS256, ES256 or EdDSA needs a `public_key_file`, and no secret",
        };
        Err(ConfigError::InvalidKey { which: self.name(), problem })
    }

    /// For messages; nothing of the key itself.
    pub(crate) fn name(&self) -> String {
        self.kid.as_ref().map_or_else(|| "the key without `kid`".into(), |kid| format!("the key `{kid}`"))
    }
}

/// Whether nobody on the way can give us keys of their own.
fn is_trustworthy(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_bare = url.username().is_empty() && url.password().is_none();
    is_bare && (url.scheme() == "https" || url.scheme() == "http" && is_loopback)
}
