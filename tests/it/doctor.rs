//! `agentctl doctor`: what is there, what is not, and what to do.

use std::fs;
use std::process::{Command, Output};

use baton_devmodel::{Answer, ModelDouble};
use serde_json::{Value, json};

use crate::support::{RealApp, eventually};

fn doctor(database_url: &str, arguments: &[&str]) -> Output {
    doctor_with(Some(database_url), arguments, &[])
}

/// With these variables, and none of the others that name a provider.
fn doctor_with(database_url: Option<&str>, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_HOST"] {
        command.env_remove(name);
    }
    command.current_dir(folder.path()).env_remove("DATABASE_URL").envs(variables.iter().copied());
    if let Some(url) = database_url {
        command.env("DATABASE_URL", url);
    }
    command.args(arguments).arg("doctor").output().unwrap()
}

/// The checks that failed, each with its name in front.
fn failed(output: &Output) -> Vec<String> {
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    said.lines().filter_map(|line| line.strip_prefix("NO  ").map(str::to_owned)).collect()
}

#[tokio::test]
async fn doctor_says_what_is_missing_and_what_to_do() {
    let app = RealApp::start(&[]).await;
    let without = doctor(&app.url, &[]);
    assert_eq!(
        (without.status.code(), failed(&without)),
        (Some(6), vec!["worker    none is alive: start `agentctl worker`".into()])
    );

    let _worker = app.start_worker().await;
    let whole =
        eventually("all is well", || async { Some(doctor(&app.url, &["--json"])).filter(|output| output.status.success()) })
            .await;
    let checks: Value = serde_json::from_slice(&whole.stdout).unwrap();
    let names: Vec<&str> = checks.as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["settings", "models", "database", "schema", "worker", "queue"]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("baton.toml");
    fs::write(&file, "[models.fast]\nprovider = \"openai\"\nmodel = \"small\"\n").unwrap();
    let keyless = failed(&doctor(&app.url, &["--config", file.to_str().unwrap()]));
    assert_eq!(keyless, ["models    `fast` asks small by openai: set OPENAI_API_KEY where its workers run"]);

    sqlx::query("UPDATE _sqlx_migrations SET success = false WHERE version = (SELECT max(version) FROM _sqlx_migrations)")
        .execute(&app.pool)
        .await
        .unwrap();
    let older = failed(&doctor(&app.url, &[]));
    assert!(older[0].starts_with("schema") && older[0].contains("agentctl migrate"), "{older:?}");

    let nothing = failed(&doctor_with(None, &[], &[]));
    assert_eq!(nothing, ["database  nothing runs here: start `agentctl dev`, or set DATABASE_URL"]);
    let nowhere = failed(&doctor("postgres://127.0.0.1:1/none", &[]));
    assert!(nowhere[0].starts_with("database") && nowhere[0].contains("is Postgres running there?"), "{nowhere:?}");
    app.finish().await;
}

/// It asks for the list of models, as `dev` would ask the provider that the variable names.
#[tokio::test(flavor = "multi_thread")] // the provider answers while the test waits for the command
async fn doctor_asks_a_provider_whether_it_would_answer() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let double = ModelDouble::start().await.unwrap();
    let list = |id: &str| json!({"data": [{"id": "other"}, {"id": id}]}).to_string();
    for (status, body, problem) in [
        (200, list("llama3.2:latest"), None),
        (200, list("llama3"), Some("it has no model `llama3.2`")),
        (200, "no list".into(), None),
        (404, String::new(), None),
        (401, String::new(), Some("it refuses the key")),
        (503, String::new(), Some("it is there and does not work (status 503)")),
    ] {
        double.push(Answer::new(status, &[], &body));
        let host = double.url();
        let failed = eventually("the worker is alive", || async {
            let output = doctor_with(Some(&app.url), &[], &[("OLLAMA_HOST", &host)]);
            let failed = failed(&output);
            (!failed.iter().any(|check| check.starts_with("worker"))).then_some(failed)
        })
        .await;
        let expected = problem.map(|problem| format!("models    `assistant` asks llama3.2 by ollama: {problem}"));
        assert_eq!(failed, Vec::from_iter(expected), "{status} {body}");
    }
    assert_eq!(double.requests()[0].path, "/v1/models");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let unreached = failed(&doctor_with(Some(&app.url), &[], &[("OLLAMA_HOST", &closed)]));
    assert!(unreached[0].contains("it is not reached"), "{unreached:?}");
    app.finish().await;
}
