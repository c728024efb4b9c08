//! Keys that an issuer publishes, and changes while we run.

use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::config::{Algorithm, Config};
use reqwest::StatusCode;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::support::{DocumentServer, SigningKey, TestApp, claims, jwt};

const MINUTE: Duration = Duration::from_secs(60);

async fn app(adjust: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_at(
        Clock::manual(OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()),
        |_| Vec::new(),
        |config| {
            jwt(config, None);
            config.auth.jwks_algorithms = vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
            adjust(config);
        },
    )
    .await
}

async fn status(app: &TestApp, key: &SigningKey) -> StatusCode {
    let claims = claims("acme/ada", app.clock.now(), &json!({"scope": "approval.read"}));
    app.http.with_token(&key.token(&claims)).get("/v1/approvals").await.0
}

fn set(keys: &[&SigningKey]) -> String {
    json!({"keys": keys.iter().map(|key| key.jwk()).collect::<Vec<Value>>()}).to_string()
}

#[tokio::test]
async fn keys_at_an_address_rotate_without_a_restart() {
    let server = DocumentServer::start().await;
    let (old, new) = (SigningKey::rs256().named("old"), SigningKey::es256().named("new"));
    server.serve(set(&[&old]));
    let app = app(|config| config.auth.jwks_url = Some(server.url.clone())).await;
    assert_eq!((status(&app, &old).await, server.asked()), (StatusCode::OK, 1));

    server.serve(set(&[&new]));
    assert_eq!(status(&app, &new).await, StatusCode::UNAUTHORIZED, "the set was read less than a minute ago");
    app.clock.advance(MINUTE - Duration::from_secs(1));
    assert_eq!((status(&app, &new).await, server.asked()), (StatusCode::UNAUTHORIZED, 1));
    app.clock.advance(Duration::from_secs(1));
    // Many at once, as after a rotation: one of them asks, and the others have what it brings.
    let together = futures::future::join_all((0..20).map(|_| status(&app, &new))).await;
    assert_eq!((together, server.asked()), (vec![StatusCode::OK; 20], 2));
    assert_eq!(status(&app, &old).await, StatusCode::UNAUTHORIZED, "what is no longer published is no longer a key");
    app.finish().await;
}

#[tokio::test]
async fn an_unknown_name_asks_the_issuer_once_a_minute() {
    let server = DocumentServer::start().await;
    let (known, unknown) = (SigningKey::ed25519().named("known"), SigningKey::ed25519().named("unknown"));
    server.serve(set(&[&known]));
    let app = app(|config| config.auth.jwks_url = Some(server.url.clone())).await;
    for minute in 1..4 {
        for _ in 0..10 {
            assert_eq!(status(&app, &unknown).await, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(server.asked(), minute);
        app.clock.advance(MINUTE);
    }
    assert_eq!(status(&app, &known).await, StatusCode::OK, "a known name asks nobody");
    assert_eq!(server.asked(), 3);
    app.finish().await;
}

#[tokio::test]
async fn what_cannot_be_read_takes_no_key_away() {
    let server = DocumentServer::start().await;
    let (known, other) = (SigningKey::ed25519().named("known"), SigningKey::ed25519().named("other"));
    server.serve(set(&[&known]));
    let app = app(|config| config.auth.jwks_url = Some(server.url.clone())).await;
    let huge = format!("{{\"keys\":[{}],\"x\":\"{}\"}}", other.jwk(), "x".repeat(300_000));
    let for_encryption = {
        let mut jwk = other.jwk();
        jwk["use"] = json!("enc");
        json!({ "keys": [jwk] }).to_string()
    };
    let symmetric = json!({"keys": [{"kty": "oct", "kid": "other", "k": "AAAA", "alg": "HS256"}]}).to_string();
    for (number, document) in
        [String::new(), "<html>".into(), "{\"keys\":[]}".into(), huge, for_encryption, symmetric].into_iter().enumerate()
    {
        server.serve(document);
        app.clock.advance(MINUTE);
        assert_eq!(status(&app, &other).await, StatusCode::UNAUTHORIZED);
        assert_eq!((status(&app, &known).await, server.asked()), (StatusCode::OK, number + 2));
    }
    app.finish().await;
}

#[tokio::test]
async fn keys_in_a_file_rotate_without_a_restart() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (old, new) = (SigningKey::es256().named("old"), SigningKey::rs256().named("new"));
    std::fs::write(file.path(), set(&[&old])).unwrap();
    let app = app(|config| config.auth.jwks_file = Some(file.path().to_owned())).await;
    assert_eq!(status(&app, &old).await, StatusCode::OK);
    std::fs::write(file.path(), set(&[&old, &new])).unwrap();
    assert_eq!(status(&app, &new).await, StatusCode::UNAUTHORIZED);
    app.clock.advance(MINUTE);
    assert_eq!((status(&app, &new).await, status(&app, &old).await), (StatusCode::OK, StatusCode::OK));
    app.finish().await;
}

#[tokio::test]
async fn a_key_of_the_set_is_for_configured_algorithms_only() {
    let server = DocumentServer::start().await;
    let (curve, rsa) = (SigningKey::es256().named("curve"), SigningKey::rs256().named("rsa"));
    server.serve(set(&[&curve, &rsa]));
    let app = app(|config| {
        (config.auth.jwks_url, config.auth.jwks_algorithms) = (Some(server.url.clone()), vec![Algorithm::Es256]);
    })
    .await;
    assert_eq!((status(&app, &curve).await, status(&app, &rsa).await), (StatusCode::OK, StatusCode::UNAUTHORIZED));
    app.finish().await;
}
