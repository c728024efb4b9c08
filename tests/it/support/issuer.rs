//! Whoever signs tokens: keys made for the test, tokens that hold unless the test says otherwise, and a server of key sets and other documents.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use baton_core::config::{Algorithm, AuthKey, AuthMode, Config};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub(crate) const ISSUER: &str = "https://issuer.test";
pub(crate) const AUDIENCE: &str = "baton";

/// A key that signs, and what the verifying side needs of it.
pub(crate) struct SigningKey {
    kid: Option<String>,
    algorithm: jsonwebtoken::Algorithm,
    key: EncodingKey,
    /// PEM, where the algorithm has a public key.
    pub(crate) public_pem: String,
}

impl SigningKey {
    pub(crate) fn hs256(secret: &[u8]) -> Self {
        let key = EncodingKey::from_secret(secret).unwrap();
        Self { kid: None, algorithm: jsonwebtoken::Algorithm::HS256, key, public_pem: String::new() }
    }

    pub(crate) fn ed25519() -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let public = pair.public_key().as_der().unwrap();
        Self::new(jsonwebtoken::Algorithm::EdDSA, EncodingKey::from_ed_der(private.as_ref()), public.as_ref())
    }

    pub(crate) fn es256() -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let private = pair.to_pkcs8v1().unwrap();
        let public = pair.public_key().as_der().unwrap();
        Self::new(jsonwebtoken::Algorithm::ES256, EncodingKey::from_ec_der(private.as_ref()), public.as_ref())
    }

    pub(crate) fn rs256() -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let pem = pem("PRIVATE KEY", private.as_ref());
        let public = pair.public_key().as_der().unwrap();
        Self::new(jsonwebtoken::Algorithm::RS256, EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap(), public.as_ref())
    }

    fn new(algorithm: jsonwebtoken::Algorithm, key: EncodingKey, public: &[u8]) -> Self {
        Self { kid: None, algorithm, key, public_pem: pem("PUBLIC KEY", public) }
    }

    pub(crate) fn named(self, kid: &str) -> Self {
        Self { kid: Some(kid.into()), ..self }
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        encode(&Header { kid: self.kid.clone(), ..Header::new(self.algorithm) }, claims, &self.key).unwrap()
    }

    /// With a header of the test's own, whatever stands in it.
    pub(crate) fn token_with_header(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, self.algorithm).unwrap();
        format!("{message}.{signature}")
    }

    /// As a key set holds it.
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&self.key, self.algorithm).unwrap()).unwrap();
        jwk["kid"] = json!(self.kid);
        jwk
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let lines: Vec<&str> = body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Claims of `tenant/principal` that hold for an hour, with these instead; null takes one away.
pub(crate) fn claims(who: &str, now: OffsetDateTime, changes: &Value) -> Value {
    let (tenant, principal) = who.split_once('/').unwrap();
    let mut claims =
        json!({"iss": ISSUER, "aud": AUDIENCE, "exp": now.unix_timestamp() + 3_600, "sub": principal, "tenant": tenant});
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

/// Tokens of [`ISSUER`], and where a secret is given one key for those without `kid`.
pub(crate) fn jwt(config: &mut Config, secret: Option<&str>) {
    config.auth.mode = AuthMode::Jwt;
    (config.auth.issuer, config.auth.audience) = (Some(ISSUER.into()), Some(AUDIENCE.into()));
    config.auth.keys.extend(secret.map(|secret| AuthKey {
        kid: None,
        algorithm: Algorithm::Hs256,
        secret: Some(secret.into()),
        secret_file: None,
        public_key_file: None,
    }));
}

/// `auth.mode = jwt` of a process, with the secret in a file of this folder.
pub(crate) fn jwt_variables(folder: &TempDir, secret: &str) -> Vec<(&'static str, String)> {
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    vec![
        ("BATON_AUTH__MODE", "jwt".into()),
        ("BATON_AUTH__ISSUER", ISSUER.into()),
        ("BATON_AUTH__AUDIENCE", AUDIENCE.into()),
        ("BATON_AUTH__KEYS", format!("[{{algorithm=\"HS256\",secret_file=\"{}\"}}]", file.display())),
    ]
}

pub(crate) fn borrowed<'a>(variables: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Serves one document to whoever asks, and counts.
#[derive(Debug, Clone)]
pub(crate) struct DocumentServer {
    pub(crate) url: String,
    document: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl DocumentServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server =
            Self { url: format!("http://{}/", listener.local_addr().unwrap()), document: Arc::default(), asked: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && socket.read_buf(&mut request).await.is_ok_and(|read| read > 0) {}
                serving.asked.fetch_add(1, Ordering::SeqCst);
                let document = serving.document.lock().unwrap().clone();
                let status = if document.is_empty() { "500 Internal Server Error" } else { "200 OK" };
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{document}", document.len());
                let _ = socket.write_all(answer.as_bytes()).await; // the client may have had enough
            }
        });
        server
    }

    /// What it serves from now on; nothing: it fails.
    pub(crate) fn serve(&self, document: String) {
        *self.document.lock().unwrap() = document;
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}
