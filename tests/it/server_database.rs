//! A database that does not answer: 503, and soon.

use std::path::Path;
use std::time::Duration;

use baton_core::db;
use baton_devdb::databases;
use baton_devdb::testing::TempCluster;
use futures::future;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Http, RealApp, eventually, message, pool};

/// The bound of the server, and what a busy machine adds.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// After so long without use a connection is looked at before it is used.
const RESTED: Duration = Duration::from_millis(1_100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_frozen_or_gone_is_503_and_never_a_hang() {
    let mut cluster = TempCluster::start().unwrap();
    let url = databases::create_if_missing(&cluster, "baton").await.unwrap();
    let migrating = pool(&url, 1);
    db::apply_migrations(&migrating).await.unwrap();
    migrating.close().await;
    let mut app = RealApp::on(&url, &[("RUST_LOG", "off")]).await;
    let session_id = app.http.create_session("test").await;
    let submission = (Method::POST, format!("/v1/sessions/{session_id}/messages"), message("noop"));
    let requests = || {
        let reading = (Method::GET, format!("/v1/sessions/{session_id}"), Value::Null);
        let creating = (Method::POST, "/v1/sessions".to_owned(), json!({"agent_id": "test"}));
        [reading, creating, submission.clone()]
    };

    let frozen = Frozen::new(processes(cluster.socket_dir()));
    let (ready, ()) = tokio::join!(app.http.get("/health/ready"), all_unavailable(&app.http, requests()));
    assert_eq!(ready, (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "not_ready"})));
    drop(frozen);
    eventually("the thawed database answers", || async {
        (app.http.get("/health/ready").await.0 == StatusCode::OK).then_some(())
    })
    .await;

    // As many connections as the pool has, all of them idle when the server goes.
    future::join_all((0..64).map(|_| app.http.get("/v1/runs"))).await;
    let used_at = Instant::now();
    cluster.kill().unwrap();
    cluster.restart().unwrap();
    tokio::time::sleep_until(used_at + RESTED).await;
    for request in 0..32 {
        assert_eq!(app.http.get("/v1/runs").await.0, StatusCode::OK, "request {request} after a restart that nobody saw");
    }

    cluster.kill().unwrap();
    all_unavailable(&app.http, requests()).await;
    cluster.restart().unwrap();
    eventually("the restarted database answers", || async {
        (app.http.get("/health/ready").await.0 == StatusCode::OK).then_some(())
    })
    .await;
    app.pool = pool(&url, 4); // the old one has broken connections, which a test does not forgive
    app.finish().await;
}

/// At once, and a life sign beside them.
async fn all_unavailable(http: &Http, requests: [(Method, String, Value); 3]) {
    let began = Instant::now();
    let asked = requests.map(|(method, path, body)| async move {
        let request = http.request(method, &path);
        let request = if body.is_null() { request } else { request.json(&body) };
        let response = request.timeout(ANSWER_MAX).send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let advice = response.headers()["retry-after"].to_str().unwrap().to_owned();
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["code"], "service_unavailable");
        assert_eq!(error["error"]["details"]["retry_after_seconds"].to_string(), advice);
    });
    let alive = async {
        assert_eq!(http.get("/health/live").await.0, StatusCode::OK);
        assert!(began.elapsed() < Duration::from_secs(2), "whoever asks for a life sign waits for the database");
        let ready = http.request(Method::GET, "/health/ready").timeout(ANSWER_MAX).send().await.unwrap();
        assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE);
    };
    future::join(future::join_all(asked), alive).await;
    println!("unavailable after {:?}", began.elapsed());
}

/// Postgres and its children.
fn processes(socket_dir: &Path) -> Vec<Pid> {
    let lock = std::fs::read_to_string(socket_dir.join(".s.PGSQL.5432.lock")).unwrap();
    let postmaster: i32 = lock.lines().next().unwrap().trim().parse().unwrap();
    let children = std::fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
    let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
    std::iter::once(postmaster).chain(children).map(Pid::from_raw).collect()
}

/// Processes that stand still until this is dropped: one that a failed test forgot would stand for ever.
struct Frozen(Vec<Pid>);

impl Frozen {
    fn new(processes: Vec<Pid>) -> Self {
        let frozen = Self(processes);
        frozen.signal(Signal::SIGSTOP);
        frozen
    }

    fn signal(&self, signal: Signal) {
        for pid in &self.0 {
            let _ = kill(*pid, signal); // fails where it has ended since
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
    }
}
