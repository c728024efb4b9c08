//! `agentctl sessions`, as an operator uses it.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::TestApp;

/// On a thread of its own: it waits for the process.
async fn agentctl(app: &TestApp, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.args(arguments).env("DATABASE_URL", app.config.database.url.as_ref().unwrap());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn said(app: &TestApp, arguments: &[&str]) -> String {
    let output = agentctl(app, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_operator_lists_closes_and_deletes_sessions() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let id = session_id.to_string();

    let busy = agentctl(&app, &["sessions", "delete", &id]).await;
    let helps = [format!("why {run_id}`"), format!("runs cancel {run_id}`")];
    let said_it = String::from_utf8_lossy(&busy.stderr).into_owned();
    assert!(!busy.status.success() && said_it.contains("not finished"), "{said_it}");
    assert!(helps.iter().all(|command| said_it.contains(command)), "{said_it}");
    let view = said(&app, &["sessions", "get", &id]).await;
    assert!(view.contains("ACTIVE") && view.contains("active run") && view.contains(&run_id.to_string()), "{view}");
    app.work().await;

    let list = said(&app, &["sessions", "list"]).await;
    assert!(list.contains(&id) && list.contains("noop"), "{list}");
    let list: Value = serde_json::from_str(&said(&app, &["--json", "sessions", "list", "--limit", "1"]).await).unwrap();
    assert_eq!(list, app.http.get("/v1/sessions").await.1, "exactly the API's view");
    let closed: Value = serde_json::from_str(&said(&app, &["--json", "sessions", "close", &id]).await).unwrap();
    assert_eq!(closed, app.http.get(&format!("/v1/sessions/{id}")).await.1);
    assert_eq!(closed["status"], "CLOSED");
    assert_eq!(said(&app, &["sessions", "delete", &id]).await, "deleted\n");
    assert!(!agentctl(&app, &["sessions", "get", &id]).await.status.success());
    app.finish().await;
}
