//! The examples of docs/clients.md, as somebody would run them: against a server that is killed under them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;

use crate::support::{RealApp, eventually, id};

#[tokio::test]
async fn the_python_example_submits_follows_resumes_and_approves() {
    an_example_works("python3", "client.py").await;
}

#[tokio::test]
async fn the_javascript_example_submits_follows_resumes_and_approves() {
    an_example_works("node", "client.mjs").await;
}

#[tokio::test]
async fn the_python_example_asks_what_it_is_asked_and_says_what_is_wrong() {
    an_example_is_helpful("python3", "client.py").await;
}

#[tokio::test]
async fn the_javascript_example_asks_what_it_is_asked_and_says_what_is_wrong() {
    an_example_is_helpful("node", "client.mjs").await;
}

async fn an_example_is_helpful(program: &'static str, file: &str) {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let answered = example(program, file, &[&app.http.url, "test", "ask"], "blue\n").await;
    assert!(answered.status.success(), "{answered:?}");
    assert!(text(&answered.stdout).contains("  blue\n") && text(&answered.stdout).ends_with("You said blue.\n"), "{answered:?}");
    for (arguments, said) in [
        (&[app.http.url.as_str(), "test", "ask"][..], "nobody is there to answer"),
        (&[&app.http.url, "nobody", "noop"], "\"not_found\""),
        (&[&app.http.url], "usage: "),
        (&["127.0.0.1:7420", "test", "noop"], "is no URL"),
        (&["nonsense", "test", "noop"], "is no URL"),
    ] {
        let ended = example(program, file, arguments, "").await;
        assert!(!ended.status.success() && text(&ended.stderr).contains(said), "{arguments:?}: {ended:?}");
        assert!(!text(&ended.stderr).contains("Traceback") && !text(&ended.stderr).contains("    at "), "{ended:?}");
    }
    let waiting = app.http.get("/v1/runs?status=WAITING_FOR_USER").await.1;
    for run in waiting["items"].as_array().unwrap() {
        app.http.cancel(id(&run["id"])).await;
    }
    app.finish().await;
}

/// To its end, with this on its standard input. On a thread of its own: it waits for the process.
async fn example(program: &'static str, file: &str, arguments: &[&str], input: &'static str) -> Output {
    let mut command = Command::new(program);
    command.arg(script(file)).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("the examples need {program}: {error}"));
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes()); // it may have ended without a look
        child.wait_with_output().unwrap()
    });
    ended.await.unwrap()
}

fn script(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(file)
}

/// The API dies while the client follows.
async fn an_example_works(program: &str, file: &str) {
    let mut app = RealApp::start(&[]).await;
    let mut command = Command::new(program);
    command.arg(script(file)).args([&app.http.url, "test", "publish news"]).stdout(Stdio::piped());
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
