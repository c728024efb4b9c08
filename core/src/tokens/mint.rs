//! Tokens for development: what an issuer would sign.

use std::path::Path;
use std::time::Duration;

use jsonwebtoken::{EncodingKey, Header, encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use time::OffsetDateTime;

use super::key::library;
use super::{KeyError, in_file, read_secret};
use crate::config::Algorithm;
use crate::scope::Scope;

/// A key that signs.
#[derive(Debug)]
pub struct Minter {
    algorithm: Algorithm,
    key: EncodingKey,
}

/// What a token says, and for how long.
#[derive(Debug, Clone)]
pub struct Grant {
    pub issuer: String,
    pub audience: String,
    pub tenant: String,
    pub principal: String,
    pub scopes: Vec<Scope>,
    pub roles: Vec<String>,
    pub ttl: Duration,
}

impl Minter {
    /// With the secret of a file: HS256.
    ///
    /// # Errors
    /// [`KeyError`]: no file, or a secret that is too short.
    pub fn with_secret(path: &Path) -> Result<Self, KeyError> {
        let secret = read_secret(path)?;
        let key = EncodingKey::from_secret(secret.expose_secret()).map_err(|_| KeyError::ShortSecret(in_file(path)))?;
        Ok(Self { algorithm: Algorithm::Hs256, key })
    }

    /// With a private key in PEM, which says itself what it is for.
    ///
    /// # Errors
    /// [`KeyError`]: no file, or not such a key.
    pub fn with_private_key(path: &Path) -> Result<Self, KeyError> {
        let pem = std::fs::read(path).map_err(|error| KeyError::Unreadable(path.to_owned(), error))?;
        let key = EncodingKey::from_ed_pem(&pem)
            .map(|key| (Algorithm::EdDsa, key))
            .or_else(|_| EncodingKey::from_ec_pem(&pem).map(|key| (Algorithm::Es256, key)))
            .or_else(|_| EncodingKey::from_rsa_pem(&pem).map(|key| (Algorithm::Rs256, key)));
        let (algorithm, key) = key.map_err(|_| KeyError::WrongKey(path.to_owned(), "private"))?;
        Ok(Self { algorithm, key })
    }

    /// A token that is good from now on.
    ///
    /// # Errors
    /// [`KeyError::Unsigned`].
    pub fn mint(&self, grant: &Grant, kid: Option<String>, now: OffsetDateTime) -> Result<SecretString, KeyError> {
        #[derive(Serialize)]
        struct Claims<'a> {
            iss: &'a str,
            aud: &'a str,
            sub: &'a str,
            tenant: &'a str,
            iat: i64,
            nbf: i64,
            exp: i64,
            scope: String,
            roles: &'a [String],
        }
        let now = now.unix_timestamp();
        let claims = Claims {
            iss: &grant.issuer,
            aud: &grant.audience,
            sub: &grant.principal,
            tenant: &grant.tenant,
            iat: now,
            nbf: now,
            exp: now.saturating_add(i64::try_from(grant.ttl.as_secs()).unwrap_or(i64::MAX)),
            scope: grant.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "),
            roles: &grant.roles,
        };
        let header = Header { kid, ..Header::new(library(self.algorithm)) };
        encode(&header, &claims, &self.key).map(SecretString::from).map_err(|_| KeyError::Unsigned)
    }
}
