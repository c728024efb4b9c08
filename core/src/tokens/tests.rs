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
    for (refusal, changes) in [
        (None, json!({})),
        (None, json!({"aud": ["other", "baton"]})),
        (None, json!({"exp": NOW - 29})),
        (None, json!({"exp": f64::from(1_800_000_000) - 29.5})),
        (None, json!({"nbf": NOW + 30})),
        (None, json!({"iat": NOW + 600})),
        (None, json!({"scope": null})),
        (Some(Refusal::Missing("exp")), json!({"exp": null})),
        (Some(Refusal::Missing("iss")), json!({"iss": null})),
        (Some(Refusal::Missing("aud")), json!({"aud": null})),
        (Some(Refusal::Missing("sub")), json!({"sub": null})),
        (Some(Refusal::Missing("tenant")), json!({"tenant": null})),
        (Some(Refusal::Identifier), json!({"sub": ""})),
        (Some(Refusal::Identifier), json!({"tenant": ""})),
        (Some(Refusal::Identifier), json!({"tenant": "a\u{0}b"})),
        (Some(Refusal::Claims), json!({"tenant": 7})),
        (Some(Refusal::Identifier), json!({"sub": "x".repeat(256)})),
        (Some(Refusal::Issuer), json!({"iss": "https://issuer.test/"})),
        (Some(Refusal::Claims), json!({"iss": ["https://issuer.test"]})),
        (Some(Refusal::Audience), json!({"aud": "other"})),
        (Some(Refusal::Audience), json!({"aud": []})),
        (Some(Refusal::Audience), json!({"aud": "BATON"})),
        (Some(Refusal::Expired), json!({"exp": NOW - 30})),
        (Some(Refusal::Expired), json!({"exp": NOW - 31})),
        (Some(Refusal::Claims), json!({"exp": "2100-01-01"})),
        (Some(Refusal::NoTime), json!({"exp": 1e300})),
        (Some(Refusal::NoTime), json!({"exp": -1e300})),
        (Some(Refusal::NotYet), json!({"nbf": NOW + 31})),
        (Some(Refusal::Claims), json!({"nbf": "soon"})),
        (Some(Refusal::Claims), json!({"roles": "operator"})),
    ] {
        assert_eq!(verifier.verify(&token(&changes)).await.err(), refusal, "{changes}");
    }
    assert_eq!(verifier.verify(&"x".repeat(20_000)).await.unwrap_err(), Refusal::TooLong);
}

#[tokio::test]
async fn what_is_wrong_with_a_token_itself_is_told_apart() {
    let verifier = verifier(&settings()).await;
    let signed =
        |header: &Header, secret: &[u8]| encode(header, &claims(&json!({})), &EncodingKey::from_secret(secret).unwrap()).unwrap();
    let named = Header { kid: Some("other".into()), ..Header::default() };
    for (token, refusal) in [
        ("a.b.c".to_owned(), Refusal::NoToken),
        (String::new(), Refusal::NoToken),
        (signed(&named, SECRET.as_bytes()), Refusal::UnknownKid),
        (signed(&Header::default(), SECRET.repeat(2).as_bytes()), Refusal::Signature),
        (signed(&Header::new(jsonwebtoken::Algorithm::HS512), SECRET.as_bytes()), Refusal::Algorithm),
    ] {
        assert_eq!(verifier.verify(&token).await.unwrap_err(), refusal, "{token}");
    }
    let mut only_named = settings();
    only_named.keys[0].kid = Some("mine".into());
    let verifier = Verifier::start(&only_named, Clock::system()).await.unwrap();
    assert_eq!(verifier.verify(&signed(&Header::default(), SECRET.as_bytes())).await.unwrap_err(), Refusal::NoKid);
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
    assert!(error.to_string().ends_with("that of the key without `kid` has fewer"), "{error}");

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
