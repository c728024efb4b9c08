//! One key that verifies, for one algorithm.

use std::path::Path;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{DecodingKey, Validation, decode};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::claims::Claims;
use super::{KeyError, Refusal, in_file, long_enough, read_secret};
use crate::config::{Algorithm, AuthKey};

/// An uncompressed point of P-256, the one curve of ES256.
const P256_POINT_BYTES: usize = 65;

/// The library hides the key in `Debug`, and wipes it when it is dropped.
#[derive(Debug)]
pub(super) struct VerifyingKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl VerifyingKey {
    /// A key of the configuration, which has been checked: it has what its algorithm needs.
    pub(super) fn configured(settings: &AuthKey) -> Result<Self, KeyError> {
        let key = match settings {
            AuthKey { secret: Some(secret), .. } => {
                symmetric(secret.expose_secret().as_bytes()).ok_or_else(|| KeyError::ShortSecret(settings.name()))?
            }
            AuthKey { secret_file: Some(path), .. } => {
                symmetric(read_secret(path)?.expose_secret()).ok_or_else(|| KeyError::ShortSecret(in_file(path)))?
            }
            AuthKey { public_key_file: Some(path), algorithm, .. } => public(path, *algorithm)?,
            _ => return Err(KeyError::Missing("keys")),
        };
        Ok(Self { algorithm: settings.algorithm, key })
    }

    /// A key of a set, with its name, where it is one of these algorithms. Its type says which; where it says so itself, that
    /// must be the same. None: not for us.
    pub(super) fn published(jwk: &Jwk, algorithms: &[Algorithm]) -> Option<(String, Self)> {
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => Algorithm::Rs256,
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::Es256,
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDsa,
            _ => return None,
        };
        let common = &jwk.common;
        let is_allowed = algorithms.contains(&algorithm)
            && common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(library(algorithm)))
            && common.public_key_use.as_ref().is_none_or(|own| *own == PublicKeyUse::Signature)
            && common.key_operations.as_ref().is_none_or(|own| own.contains(&KeyOperations::Verify));
        let key = DecodingKey::from_jwk(jwk).ok().filter(|_| is_allowed)?;
        Some((common.key_id.clone()?, Self { algorithm, key }))
    }

    /// The claims of a token that this key has signed; when they hold and for whom is judged elsewhere.
    pub(super) fn verify(&self, token: &str) -> Result<Claims, Refusal> {
        let mut validation = Validation::new(library(self.algorithm));
        // The library would ask the machine for the time, and checks less unless it is told more: `claims` does all of it.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let refused = |error: jsonwebtoken::errors::Error| match error.kind() {
            ErrorKind::InvalidSignature => Refusal::Signature,
            ErrorKind::InvalidAlgorithm => Refusal::Algorithm,
            // What the parser says may repeat a claim: they are looked at again, signed as they are.
            ErrorKind::Json(_) => decode(token, &self.key, &validation).map_or(Refusal::Claims, |token| missing(&token.claims)),
            _ => Refusal::NoToken,
        };
        decode(token, &self.key, &validation).map(|token| token.claims).map_err(refused)
    }
}

fn missing(claims: &Map<String, Value>) -> Refusal {
    Claims::NEEDED.into_iter().find(|name| !claims.contains_key(*name)).map_or(Refusal::Claims, Refusal::Missing)
}

/// The library's word for an algorithm.
pub(super) const fn library(algorithm: Algorithm) -> jsonwebtoken::Algorithm {
    match algorithm {
        Algorithm::Hs256 => jsonwebtoken::Algorithm::HS256,
        Algorithm::Rs256 => jsonwebtoken::Algorithm::RS256,
        Algorithm::Es256 => jsonwebtoken::Algorithm::ES256,
        Algorithm::EdDsa => jsonwebtoken::Algorithm::EdDSA,
    }
}

/// None: the secret is too short.
fn symmetric(secret: &[u8]) -> Option<DecodingKey> {
    DecodingKey::from_secret(long_enough(secret)?).ok()
}

fn public(path: &Path, algorithm: Algorithm) -> Result<DecodingKey, KeyError> {
    let pem = std::fs::read(path).map_err(|error| KeyError::Unreadable(path.to_owned(), error))?;
    let key = match algorithm {
        Algorithm::Rs256 => DecodingKey::from_rsa_pem(&pem),
        Algorithm::EdDsa => DecodingKey::from_ed_pem(&pem),
        Algorithm::Es256 | Algorithm::Hs256 => DecodingKey::from_ec_pem(&pem),
    };
    let is_point = |key: &DecodingKey| key.try_get_as_bytes().is_ok_and(|bytes| bytes.len() == P256_POINT_BYTES);
    // The library reads a private key of RSA too, and would then refuse every token.
    let is_private = String::from_utf8_lossy(&pem).contains("PRIVATE KEY");
    let fits = |key: &DecodingKey| !is_private && (algorithm != Algorithm::Es256 || is_point(key));
    key.ok().filter(fits).ok_or_else(|| KeyError::WrongKey(path.to_owned(), algorithm.as_str()))
}
