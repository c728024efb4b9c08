//! Real processes: what they refuse to start with, what they print, and the command line as a client with a token.

use std::fs::File;
use std::process::{Command, Output};

use baton_core::clock::Clock;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{
    AUDIENCE, DocumentServer, Http, ISSUER, Process, RealApp, SigningKey, TestDatabase, borrowed, claims, eventually,
    jwt_variables,
};

const SECRET: &str = "planted-secret-5e1f-and-long-enough";

fn agentctl(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.env_remove("DATABASE_URL").args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn gate_a12_a_server_that_anybody_could_use_does_not_start() {
    let database = TestDatabase::create().await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let short = jwt_variables(&folder, "too short");
    let routable = vec![("BATON_SERVER__ALLOWED_HOSTS", "[\"baton.example.com\"]".to_owned())];
    for (listen, variables, said) in [
        ("0.0.0.0:0", routable, "auth.mode = dev"),
        ("[::]:0", Vec::new(), "must be named; `server.allowed_hosts` names them; `auth.mode = dev`"),
        ("127.0.0.1:0", short, "at least 32 bytes: that of the file `"),
        ("127.0.0.1:0", vec![("BATON_AUTH__MODE", "jwt".to_owned())], "auth.issuer"),
        ("127.0.0.1:0", vec![("BATON_SERVER__CORS_ORIGINS", "[\"*\"]".to_owned())], "server.cors_origins"),
    ] {
        let mut variables = borrowed(&variables);
        variables.push(("DATABASE_URL", &database.url));
        let log = folder.path().join("log");
        let arguments = ["--data-dir", data, "api", "--listen", listen];
        // Not waited for without end: what should not start may serve for ever.
        let mut api = Process::agentctl_into(File::create(&log).unwrap(), &arguments, &variables);
        let code = api.ended().await.code();
        let said_it = std::fs::read_to_string(&log).unwrap();
        assert_eq!(code, Some(2), "{listen}: {said_it}");
        assert!(said_it.contains(said), "{said}: {said_it}");
    }
    database.remove().await;
}

#[tokio::test]
async fn a_token_is_minted_and_the_command_line_runs_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let variables = jwt_variables(&folder, SECRET);
    let variables = borrowed(&variables);
    let app = RealApp::start(&variables).await;
    let worker = app.start_worker().await;
    let secret_file = folder.path().join("secret");
    let mint = |more: &[&str]| {
        let arguments = ["token", "mint", "--tenant", "acme", "--principal", "ada"];
        agentctl(&[&arguments, more].concat(), &variables)
    };
    let refused = mint(&[]);
    assert_eq!(refused.status.code(), Some(2), "without a key: {}", text(&refused.stderr));
    let minted =
        mint(&["--secret-file", secret_file.to_str().unwrap(), "--role", "member", "--scope", "demo.write", "--ttl", "5m"]);
    assert!(minted.status.success(), "{}", text(&minted.stderr));
    let token = text(&minted.stdout).trim().to_owned();

    // What the server would take for nothing is not signed.
    let signing = ["--secret-file", secret_file.to_str().unwrap()];
    let config = folder.path().join("roles.toml");
    std::fs::write(&config, "[auth.roles]\nauditor = [\"run.read\"]\n").unwrap();
    let with_config = ["--config", config.to_str().unwrap()];
    for (arguments, said) in [
        (vec![], "--role or --scope"),
        (vec!["--role", "admin"], "approver, member, operator; give the --config"),
        (vec!["--role", "auditor"], "`auditor` is no role"),
        ([with_config.as_slice(), &["--role", "admin"]].concat(), "approver, auditor, member, operator"),
        (vec!["--role", "member", "--scope", "run.*"], "a scope is one of session.read"),
    ] {
        let refused = mint(&[signing.as_slice(), &arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(text(&refused.stderr).contains(said) && refused.stdout.is_empty(), "{arguments:?}: {}", text(&refused.stderr));
    }
    assert!(mint(&[signing.as_slice(), &with_config, &["--role", "auditor"]].concat()).status.success());
    for nobody in [["--tenant", "", "--principal", "ada"], ["--tenant", "acme", "--principal", "a\nda"]] {
        let refused = agentctl(&[&["token", "mint", "--role", "member"], &signing[..], &nobody].concat(), &variables);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("1 to 255 characters"), "{}", text(&refused.stderr));
    }

    let data = folder.path().to_str().unwrap();
    let run = ["--data-dir", data, "run", "--agent", "test", "noop", "--url", &app.http.url];
    let ran = agentctl(&run, &[("BATON_TOKEN", &token)]);
    assert!(ran.status.success() && text(&ran.stdout).contains("done"), "{} {}", text(&ran.stdout), text(&ran.stderr));
    let stranger = agentctl(&run, &[]);
    assert_eq!(stranger.status.code(), Some(4), "{}", text(&stranger.stderr));
    assert!(text(&stranger.stderr).contains("--token"));
    let help = agentctl(&["run", "--help"], &[("BATON_TOKEN", &token)]);
    assert!(!text(&help.stdout).contains(&token));
    drop(worker);
    app.finish().await;
}

#[tokio::test]
async fn an_address_in_use_is_said_with_a_way_out() {
    let database = TestDatabase::create().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data-dir", folder.path().to_str().unwrap(), "api"];
    let artifacts = folder.path().join("artifacts");
    let variables = [
        ("DATABASE_URL", database.url.as_str()),
        ("BATON_SERVER__LISTEN", &address),
        ("BATON_ARTIFACTS__FOLDER", artifacts.to_str().unwrap()),
    ];
    let log = folder.path().join("log");
    let mut api = Process::agentctl_into(File::create(&log).unwrap(), &arguments, &variables);
    let code = api.ended().await.code();
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains(&address) && said.contains("`--listen 127.0.0.1:0`"), "{said}");
    database.remove().await;
}

/// Everything that an answer shows.
async fn shown(http: &Http, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> (StatusCode, String) {
    let request = headers.iter().fold(http.request(method.clone(), path), |request, (name, value)| request.header(*name, *value));
    let request = if method == Method::POST && !path.ends_with("browser-session") { request.json(body) } else { request };
    let response = request.send().await.unwrap();
    let (status, head) = (response.status(), format!("{:?}", response.headers()));
    (status, format!("{head}\n{}", response.text().await.unwrap()))
}

#[tokio::test]
async fn gate_a13_no_credential_is_shown_anywhere() {
    let database = TestDatabase::create().await;
    let folder = tempfile::tempdir().unwrap();
    let keys = DocumentServer::start().await;
    keys.serve(json!({"keys": [SigningKey::ed25519().named("theirs").jwk()]}).to_string());
    let config = format!(
        "[auth]\nmode = \"jwt\"\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\njwks_algorithms = [\"EdDSA\"]\n\
         jwks_url = \"{}?key=planted-in-the-address\"\n[[auth.keys]]\nalgorithm = \"HS256\"\nsecret = \"{SECRET}\"\n",
        keys.url
    );
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("baton.toml"), config).unwrap();
    let separator = if database.url.contains('?') { '&' } else { '?' };
    let database_url = format!("{}{separator}password=planted-password", database.url);
    let start = |log: &str| {
        Process::agentctl_into(
            File::create(at(log)).unwrap(),
            &[
                "--config",
                &at("baton.toml"),
                "--data-dir",
                &at(""),
                "api",
                "--listen",
                "127.0.0.1:0",
                "--ready-file",
                &at("ready"),
            ],
            &[("DATABASE_URL", &database_url), ("RUST_LOG", "trace"), ("BATON_ARTIFACTS__FOLDER", &at("artifacts"))],
        )
    };
    let api = start("log");
    let ready: Value =
        eventually("the API is ready", || async { serde_json::from_slice(&std::fs::read(at("ready")).ok()?).ok() }).await;
    let http = Http::new(ready["url"].as_str().unwrap().to_owned());

    let claims = claims("acme/ada", Clock::system().now(), &json!({"roles": ["member"]}));
    let good = SigningKey::hs256(SECRET.as_bytes()).token(&claims);
    let unknown = SigningKey::ed25519().named("planted-kid").token(&claims);
    let mut seen = String::new();
    for (credential, expected) in
        [(good.as_str(), StatusCode::CREATED), (&unknown, StatusCode::UNAUTHORIZED), ("planted-token", StatusCode::UNAUTHORIZED)]
    {
        let (bearer, cookie) = (format!("Bearer {credential}"), format!("baton_session={credential}"));
        for headers in [[("authorization", bearer.as_str())], [("cookie", cookie.as_str())]] {
            let (status, answer) = shown(&http, Method::POST, "/v1/sessions", &headers, &json!({"agent_id": "demo"})).await;
            assert_eq!(status, expected, "{answer}");
            seen.push_str(&answer);
            for path in ["/v1/runs/x", "/v1/approvals", "/v1/nothing", &format!("/v1/approvals?token={credential}")] {
                let (_, answer) = shown(&http, Method::GET, path, &headers, &Value::Null).await;
                // The one parameter of ours that is unknown is named, never its value.
                seen.push_str(&answer);
            }
            let (_, answer) = shown(&http, Method::POST, "/v1/browser-session", &headers, &Value::Null).await;
            seen.push_str(&answer.replace(&format!("baton_session={good}"), ""));
        }
    }
    drop(api);
    let mut log = std::fs::read_to_string(at("log")).unwrap();
    // Neither what the issuer answers nor where it is: the second of them is a 500.
    for document in ["planted-answer", ""] {
        keys.serve(document.into());
        assert_eq!(start("refusal").ended().await.code(), Some(2));
        let refusal = std::fs::read_to_string(at("refusal")).unwrap();
        assert!(refusal.contains("the key set cannot be read"), "{refusal}");
        log.push_str(&refusal);
    }
    for why in ["neither one of `auth.keys` nor one of the key set", "it is no signed token"] {
        assert!(log.contains(why), "why a credential was refused is in the log: {why}");
    }
    assert!(log.lines().count() > 50, "at this level it says a lot: {log}");
    let rows: Vec<String> = sqlx::query_scalar("SELECT s::text FROM sessions s UNION ALL SELECT e::text FROM events e")
        .fetch_all(&database.pool)
        .await
        .unwrap();
    assert!(!rows.is_empty());
    let signature = good.rsplit('.').next().unwrap();
    for secret in [SECRET, "planted", &good, &unknown, signature] {
        assert!(!seen.contains(secret), "an answer shows {secret}: {seen}");
        assert!(!rows.concat().contains(secret), "a row shows {secret}");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(secret)).collect();
        assert_eq!(lines, Vec::<&str>::new(), "the log shows {secret}");
    }
    database.remove().await;
}
