//! `agentctl runs`, as an operator uses it.

use std::process::{Command, Output};

use crate::support::{RealApp, TestApp};

/// On a thread of its own: it waits for the process.
async fn cancel(app: &TestApp, run_id: uuid::Uuid) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.args(["runs", "cancel", &run_id.to_string()]).env("DATABASE_URL", app.config.database.url.as_ref().unwrap());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Who reads along may go: the run is followed to its end all the same.
#[tokio::test]
async fn a_stderr_that_has_gone_ends_nothing() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.args(["run", "work", "--agent", "test", "--url", &app.http.url]).stderr(writer);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("The answer is"));
    app.finish().await;
}

#[tokio::test]
async fn a_cancellation_that_comes_too_late_is_said_and_is_no_failure() {
    let app = TestApp::start().await;
    let (waiting, ended) = (app.http.start_run("noop").await, app.http.start_run("noop").await);
    assert!(cancel(&app, waiting).await.stderr.is_empty());
    app.work().await;
    for (run_id, status) in [(waiting, "CANCELLED"), (ended, "COMPLETED")] {
        let output = cancel(&app, run_id).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(status), "{output:?}");
        assert!(said.contains("nothing was cancelled") && said.contains(status), "{said}");
    }
    app.finish().await;
}
