//! Tokens that are somebody's, and all those that only look like it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_core::Scope;
use baton_core::clock::Clock;
use baton_core::config::{Algorithm, AuthKey, Config};
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::support::{DEADLINE, DocumentServer, SigningKey, TestApp, claims, jwt};

const SECRET: &str = "a secret of the tests, and long enough";

/// An app with a clock that stands still, and one key for tokens without `kid`.
async fn app(adjust: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::start_at(
        Clock::manual(OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()),
        |_| Vec::new(),
        |config| {
            jwt(config, Some(SECRET));
            adjust(config);
        },
    )
    .await
}

fn key() -> SigningKey {
    SigningKey::hs256(SECRET.as_bytes())
}

/// Claims that may list approvals.
fn reader(app: &TestApp, changes: &Value) -> Value {
    let mut claims = claims("acme/ada", app.clock.now(), &json!({"scope": "approval.read"}));
    claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

/// What a token gets: its status, and all of the answer but the request's own name.
async fn answer(app: &TestApp, token: &str) -> (StatusCode, Value) {
    let response = app.http.with_token(token).request(Method::GET, "/v1/approvals").send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body: Value = response.json().await.unwrap();
    if status == StatusCode::UNAUTHORIZED {
        assert_eq!(headers[header::WWW_AUTHENTICATE], "Bearer");
        body["error"].as_object_mut().unwrap().remove("request_id").unwrap();
    }
    (status, body)
}

/// Good tokens are answered; all others exactly as no token at all is.
async fn check(app: &TestApp, what: &str, token: &str, is_good: bool) {
    let (status, body) = answer(app, token).await;
    if is_good {
        assert_eq!(status, StatusCode::OK, "{what}: {body}");
    } else {
        let (none, mut nothing) = app.http.get("/v1/approvals").await;
        nothing["error"].as_object_mut().unwrap().remove("request_id").unwrap();
        assert_eq!((status, &body), (none, &nothing), "{what}");
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{what}");
    }
}

#[tokio::test]
async fn case_i1_unsigned_tokens_are_none() {
    let app = app(|_| {}).await;
    let claims = claims("acme/ada", app.clock.now(), &json!({"scope": "approval.read operator.read", "roles": ["operator"]}));
    check(&app, "signed", &key().token(&claims), true).await;
    let signed = key().token(&claims);
    let (message, signature) = signed.rsplit_once('.').unwrap();
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for alg in ["none", "None", "nOnE", "NONE", "", "HS384", "HS512", "RS256", "hs256"] {
        let unsigned = format!("{}.{}", part(&json!({"alg": alg, "typ": "JWT"})), part(&claims));
        for token in [format!("{unsigned}."), unsigned.clone(), format!("{unsigned}.{signature}")] {
            check(&app, &format!("alg {alg}"), &token, false).await;
        }
        let resigned = key().token_with_header(&json!({"alg": alg}), &claims);
        check(&app, &format!("alg {alg}, signed"), &resigned, false).await;
    }
    for token in ["", ".", "..", "...", message, &format!("{message}."), &format!("{signed}.{signature}"), &signed[1..]] {
        check(&app, token, token, false).await;
    }
    check(&app, "another's signature", &SigningKey::hs256(&[7; 32]).token(&claims), false).await;
    check(&app, "no algorithm", &key().token_with_header(&json!({"typ": "JWT"}), &claims), false).await;
    check(&app, "critical", &key().token_with_header(&json!({"alg": "HS256", "crit": ["exp"]}), &claims), false).await;
    app.finish().await;
}

#[tokio::test]
async fn case_i3_a_kid_is_a_name_and_nothing_else() {
    let keys = DocumentServer::start().await;
    keys.serve(json!({"keys": [SigningKey::ed25519().named("published").jwk()]}).to_string());
    let app = app(|config| {
        config.auth.keys[0].kid = Some("ours".into());
        (config.auth.jwks_url, config.auth.jwks_algorithms) = (Some(keys.url.clone()), vec![Algorithm::EdDsa]);
    })
    .await;
    let claims = reader(&app, &json!({}));
    check(&app, "known", &key().named("ours").token(&claims), true).await;
    app.clock.advance(Duration::from_secs(61)); // an unknown name may be asked for now, once
    for kid in [
        json!("../../../../dev/null"),
        json!("' UNION SELECT 'x"),
        json!("x".repeat(10_000)),
        json!(["ours"]),
        json!(null),
        json!("OURS"),
        json!("published"),
        json!("unknown"),
        json!(""),
    ] {
        // Signed with the real key, and with what a forger hopes that the name leads to.
        for signer in [key(), SigningKey::hs256(b"x"), SigningKey::hs256(&[0])] {
            let token = signer.token_with_header(&json!({"alg": "HS256", "kid": kid}), &claims);
            check(&app, &format!("kid {kid:.40}"), &token, false).await;
        }
    }
    check(&app, "none", &key().token(&claims), false).await;
    assert_eq!(keys.asked(), 2, "at start, and once for all the unknown names of a minute");
    app.finish().await;
}

#[tokio::test]
async fn case_i4_a_token_brings_no_key() {
    let keys = DocumentServer::start().await;
    let own = SigningKey::ed25519().named("own");
    keys.serve(json!({"keys": [own.jwk()]}).to_string());
    let app = app(|_| {}).await;
    let claims = reader(&app, &json!({}));
    for mut header in [json!({"jwk": own.jwk()}), json!({"jku": keys.url}), json!({"x5u": keys.url}), json!({"x5c": ["AAAA"]})] {
        for kid in [json!("own"), Value::Null] {
            (header["alg"], header["kid"]) = (json!("EdDSA"), kid);
            check(&app, &header.to_string(), &own.token_with_header(&header, &claims), false).await;
        }
        // They are ignored, not obeyed: with our signature the token is ours.
        header["alg"] = json!("HS256");
        check(&app, &header.to_string(), &key().token_with_header(&header, &claims), true).await;
    }
    assert_eq!(keys.asked(), 0, "nobody was asked for a key");
    app.finish().await;
}

#[tokio::test]
async fn case_i5_a_token_that_has_not_begun_is_none() {
    let app = app(|_| {}).await;
    let now = app.clock.now().unix_timestamp();
    for (seconds, is_good) in [(600, false), (31, false), (30, true), (0, true), (-600, true)] {
        check(&app, &format!("nbf {seconds}"), &key().token(&reader(&app, &json!({"nbf": now + seconds}))), is_good).await;
    }
    let early = key().token(&reader(&app, &json!({"nbf": now + 600})));
    app.clock.advance(Duration::from_secs(570));
    check(&app, "when it has begun", &early, true).await;
    app.finish().await;
}

#[tokio::test]
async fn case_i7_what_is_missing_is_not_taken_for_granted() {
    let app = app(|_| {}).await;
    for missing in ["exp", "aud", "iss", "sub", "tenant"] {
        check(&app, missing, &key().token(&reader(&app, &json!({missing: null}))), false).await;
    }
    for (changes, is_good) in [
        (json!({"aud": ["other", "baton"]}), true),
        (json!({"aud": ["other"]}), false),
        (json!({"aud": "other"}), false),
        (json!({"iss": "https://issuer.test/"}), false),
        (json!({"iss": "https://ISSUER.test"}), false),
        (json!({"sub": ""}), false),
        (json!({"tenant": "a\nb"}), false),
    ] {
        check(&app, &changes.to_string(), &key().token(&reader(&app, &changes)), is_good).await;
    }
    app.finish().await;
}

#[tokio::test]
async fn case_i8_the_leeway_is_thirty_seconds() {
    let app = app(|_| {}).await;
    let now = app.clock.now().unix_timestamp();
    for (ago, is_good) in [(1, true), (29, true), (30, false), (31, false), (61, false)] {
        check(&app, &format!("exp {ago} s ago"), &key().token(&reader(&app, &json!({"exp": now - ago}))), is_good).await;
    }
    check(&app, "made in the future", &key().token(&reader(&app, &json!({"iat": now + 600}))), true).await;
    app.finish().await;
}

#[tokio::test]
async fn case_i8_a_stream_ends_with_its_token() {
    let app = app(|_| {}).await;
    let now = app.clock.now().unix_timestamp();
    let token = |exp: i64| key().token(&reader(&app, &json!({"exp": exp, "roles": ["member"]})));
    let http = app.http.with_token(&token(now + 60));
    let run_id = http.start_run("noop").await;
    let path = format!("/v1/runs/{run_id}/events");
    let mut stream = http.request(Method::GET, &path).send().await.unwrap();
    let mut bytes = Vec::new();
    app.clock.advance(Duration::from_secs(89)); // in the leeway a token is good, for streams as for requests
    while !String::from_utf8_lossy(&bytes).contains(": hb") {
        bytes.extend(stream.chunk().await.unwrap().unwrap());
    }
    assert_eq!(http.get(&format!("/v1/runs/{run_id}")).await.0, StatusCode::OK);
    app.clock.advance(Duration::from_secs(1));
    let rest = tokio::time::timeout(DEADLINE, stream.bytes()).await.expect("the stream ends").unwrap();
    bytes.extend(rest);
    let text = String::from_utf8(bytes).unwrap();
    let (stored, closing) = text.rsplit_once("event: stream.closing\n").expect("it says that it ends");
    let last = stored.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    assert_eq!(closing, format!("data: {{\"last_sequence\":{last}}}\n\n"));
    assert_eq!(http.request(Method::GET, &path).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let renewed = app.http.with_token(&token(now + 600)).request(Method::GET, &path).header("Last-Event-ID", last);
    assert_eq!(renewed.send().await.unwrap().status(), StatusCode::OK, "with a new token it goes on");
    app.finish().await;
}

#[tokio::test]
async fn every_algorithm_verifies_with_its_own_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [
        (Algorithm::Rs256, SigningKey::rs256().named("RS256")),
        (Algorithm::Es256, SigningKey::es256().named("ES256")),
        (Algorithm::EdDsa, SigningKey::ed25519().named("EdDSA")),
    ];
    let app = app(|config| {
        for (algorithm, key) in &keys {
            let file = folder.path().join(algorithm.as_str());
            std::fs::write(&file, &key.public_pem).unwrap();
            let (kid, algorithm) = (Some(algorithm.as_str().to_owned()), *algorithm);
            config.auth.keys.push(AuthKey { kid, algorithm, secret: None, secret_file: None, public_key_file: Some(file) });
        }
    })
    .await;
    let claims = reader(&app, &json!({}));
    for (algorithm, key) in &keys {
        check(&app, algorithm.as_str(), &key.token(&claims), true).await;
        // A public key is no secret, whatever the token says about it.
        let confused = SigningKey::hs256(key.public_pem.as_bytes()).named(algorithm.as_str());
        check(&app, "a public key as a secret", &confused.token(&claims), false).await;
        for (other, stranger) in &keys {
            let token = stranger.token_with_header(&json!({"alg": other.as_str(), "kid": algorithm.as_str()}), &claims);
            check(&app, "under another's name", &token, algorithm == other).await;
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn scopes_come_from_the_token_and_from_its_roles() {
    let app = app(|config| {
        config.auth.roles.insert("auditor".into(), [Scope::ApprovalRead].into());
    })
    .await;
    for (changes, allowed) in [
        (json!({"scope": "approval.read"}), true),
        (json!({"scope": "run.read approval.read unknown.scope"}), true),
        (json!({"scope": null, "roles": ["auditor"]}), true),
        (json!({"scope": null, "roles": ["member"]}), true),
        (json!({"scope": null, "roles": ["admin", "root"]}), false),
        (json!({"scope": null}), false),
        (json!({"scope": "approval.* approval APPROVAL.READ *"}), false),
        (json!({"scope": "approval.resolve"}), false),
    ] {
        let expected = if allowed { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(answer(&app, &key().token(&reader(&app, &changes))).await.0, expected, "{changes}");
    }
    app.finish().await;
}
