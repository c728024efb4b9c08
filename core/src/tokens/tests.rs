use std::collections::BTreeSet;

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::*;
use crate::clock::Clock;
use crate::config::{Algorithm, Auth, AuthKey, AuthMode};
use crate::scope::Scope;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_800_000_000;

fn settings() -> Auth {
    let key =
        AuthKey { kid: None, algorithm: Algorithm::Hs256, secret: Some(SECRET.into()), secret_file: None, public_key_file: None };
    Auth {
        mode: AuthMode::Jwt,
        issuer: Some("https://issuer.test".into()),
        audience: Some("baton".into()),
        keys: vec![key],
        ..Auth::default()
    }
}

async fn verifier(settings: &Auth) -> Verifier {
    Verifier::start(settings, Clock::manual(OffsetDateTime::from_unix_timestamp(NOW).unwrap())).await.unwrap()
}

/// Claims that hold, with these instead; null takes one away.
fn claims(changes: &Value) -> Value {
    let mut claims = json!({"iss": "https://issuer.test", "aud": "baton", "exp": NOW + 60, "sub": "ada", "tenant": "acme", "scope": "run.read"});
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn token(changes: &Value) -> String {
    encode(&Header::default(), &claims(changes), &EncodingKey::from_secret(SECRET.as_bytes()).unwrap()).unwrap()
}

#[tokio::test]
async fn every_claim_is_needed_and_judged() {
    let verifier = verifier(&settings()).await;
    for (is_good, changes) in [
        (true, json!({})),
        (true, json!({"aud": ["other", "baton"]})),
        (true, json!({"exp": NOW - 29})),
        (true, json!({"exp": f64::from(1_800_000_000) - 29.5})),
        (true, json!({"nbf": NOW + 30})),
        (true, json!({"iat": NOW + 600})),
        (true, json!({"scope": null})),
        (false, json!({"exp": null})),
        (false, json!({"iss": null})),
        (false, json!({"aud": null})),
        (false, json!({"sub": null})),
        (false, json!({"tenant": null})),
        (false, json!({"sub": ""})),
        (false, json!({"tenant": ""})),
        (false, json!({"tenant": "a\u{0}b"})),
        (false, json!({"tenant": 7})),
        (false, json!({"sub": "x".repeat(256)})),
        (false, json!({"iss": "https://issuer.test/"})),
        (false, json!({"iss": ["https://issuer.test"]})),
        (false, json!({"aud": "other"})),
        (false, json!({"aud": []})),
        (false, json!({"aud": "BATON"})),
        (false, json!({"exp": NOW - 30})),
        (false, json!({"exp": NOW - 31})),
        (false, json!({"exp": "2100-01-01"})),
        (false, json!({"exp": 1e300})),
        (false, json!({"exp": -1e300})),
        (false, json!({"nbf": NOW + 31})),
        (false, json!({"nbf": "soon"})),
        (false, json!({"roles": "operator"})),
    ] {
        assert_eq!(verifier.verify(&token(&changes)).await.is_ok(), is_good, "{changes}");
    }
    assert!(verifier.verify(&"x".repeat(20_000)).await.is_err());
}

#[tokio::test]
async fn scopes_come_from_both_claims_and_from_known_words_only() {
    let mut settings = settings();
    settings.roles.insert("mine".into(), BTreeSet::from([Scope::DemoWrite]));
    let verifier = verifier(&settings).await;
    let changes = json!({"scope": "run.read  run.* RUN.WRITE nothing", "roles": ["mine", "approver", "admin"]});
    let principal = verifier.verify(&token(&changes)).await.unwrap();
    let expected =
        [&[Scope::RunRead, Scope::DemoWrite], settings.roles["approver"].iter().copied().collect::<Vec<_>>().as_slice()].concat();
    assert_eq!(principal.scopes, expected.into_iter().collect());
    assert_eq!((principal.tenant_id.as_str(), principal.principal_id.as_str()), ("acme", "ada"));
    assert_eq!(principal.expires_at.unwrap().unix_timestamp(), NOW + 60 + 30, "the leeway counts everywhere or nowhere");
}

#[tokio::test]
async fn what_is_minted_is_accepted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET}\r\n")).unwrap();
    let grant = Grant {
        issuer: "https://issuer.test".into(),
        audience: "baton".into(),
        tenant: "acme".into(),
        principal: "ada".into(),
        scopes: vec![Scope::RunRead, Scope::RunWrite],
        roles: vec![],
        ttl: std::time::Duration::from_secs(5),
    };
    let minter = Minter::with_secret(file.path()).unwrap();
    let token = minter.mint(&grant, None, OffsetDateTime::from_unix_timestamp(NOW).unwrap()).unwrap();
    let principal = verifier(&settings()).await.verify(secrecy::ExposeSecret::expose_secret(&token)).await.unwrap();
    assert_eq!(principal.scopes, BTreeSet::from([Scope::RunRead, Scope::RunWrite]));
}

#[tokio::test]
async fn a_short_secret_and_a_key_of_another_kind_do_not_start() {
    let mut short = settings();
    short.keys[0].secret = Some(SECRET[1..].into());
    let error = Verifier::start(&short, Clock::system()).await.unwrap_err();
    assert!(matches!(error, KeyError::ShortSecret));

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").unwrap();
    let mut wrong = settings();
    wrong.keys[0] = AuthKey {
        kid: None,
        algorithm: Algorithm::Es256,
        secret: None,
        secret_file: None,
        public_key_file: Some(file.path().to_owned()),
    };
    assert!(matches!(Verifier::start(&wrong, Clock::system()).await.unwrap_err(), KeyError::WrongKey(..)));
}

#[tokio::test]
async fn nothing_shows_a_secret() {
    let settings = settings();
    let shown = format!("{:?} {:?}", settings, verifier(&settings).await);
    assert!(!shown.contains(SECRET) && !shown.contains(&format!("{:?}", SECRET.as_bytes())), "{shown}");
}
