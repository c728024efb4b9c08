//! The examples of docs/clients.md, as somebody would run them: against a server that is killed under them.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::support::{RealApp, eventually};

#[tokio::test]
async fn the_python_example_submits_follows_resumes_and_approves() {
    an_example_works("python3", "client.py").await;
}

#[tokio::test]
async fn the_javascript_example_submits_follows_resumes_and_approves() {
    an_example_works("node", "client.mjs").await;
}

/// The API dies while the client follows.
async fn an_example_works(program: &str, file: &str) {
    let mut app = RealApp::start(&[]).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(file);
    let mut command = Command::new(program);
    command.arg(script).args([&app.http.url, "test", "publish news"]).stdout(Stdio::piped());
    let mut child = baton_devdb::child::spawn(command, Signal::SIGKILL, None)
        .unwrap_or_else(|error| panic!("the examples need {program}, which cannot be started: {error}"));
    a_run_is(&app, "QUEUED").await;
    app.kill_api();
    app.restart_api().await;
    let _worker = app.start_worker().await;
    a_run_is(&app, "COMPLETED").await;
    let ended = eventually("the example ends", || std::future::ready(child.try_wait().unwrap())).await;
    let said = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert!(ended.success(), "{said}");
    assert!(said.starts_with("approving demo.external_write {") && said.ends_with("Published: true\n"), "{said}");
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}

async fn a_run_is(app: &RealApp, status: &str) {
    eventually(&format!("a run is {status}"), || async {
        let query = sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT 1 FROM runs WHERE status = $1)").bind(status);
        query.fetch_one(&app.pool).await.unwrap().then_some(())
    })
    .await;
}
