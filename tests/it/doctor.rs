//! `agentctl doctor`: what is there, what is not, and what to do.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{RealApp, eventually};

fn doctor(database_url: &str, arguments: &[&str]) -> Output {
    doctor_with(database_url, arguments, &[])
}

/// With these variables, and none of the others that name a provider.
fn doctor_with(database_url: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_HOST"] {
        command.env_remove(name);
    }
    command.current_dir(folder.path()).env("DATABASE_URL", database_url).envs(variables.iter().copied());
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

    let keyed = doctor_with(&app.url, &[], &[("OPENAI_API_KEY", "a key"), ("OLLAMA_HOST", "set for another program")]);
    let said = String::from_utf8(keyed.stdout).unwrap();
    assert!(
        keyed.status.success() && said.contains("models    `dev` offers the agent `assistant`: gpt-5-mini by openai"),
        "{said}"
    );

    sqlx::query("UPDATE _sqlx_migrations SET success = false WHERE version = (SELECT max(version) FROM _sqlx_migrations)")
        .execute(&app.pool)
        .await
        .unwrap();
    let older = failed(&doctor(&app.url, &[]));
    assert!(older[0].starts_with("schema") && older[0].contains("agentctl migrate"), "{older:?}");

    let nowhere = failed(&doctor("postgres://127.0.0.1:1/none", &[]));
    assert!(nowhere[0].starts_with("database") && nowhere[0].contains("is Postgres running there?"), "{nowhere:?}");
    app.finish().await;
}
