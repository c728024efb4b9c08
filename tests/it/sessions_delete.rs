//! Deleting a session: every row of it at once, its bytes soon after, and nothing of anybody else's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::Principal;
use baton_core::artifacts::ArtifactStore;
use baton_core::events::Followed;
use baton_core::execution::maintenance::Maintenance;
use baton_core::notify::Notifier;
use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use crate::events_wire::{Wire, Working, append};
use crate::sessions_close::{behind_each_other, closing, submission};
use crate::support::{Caller, Http, TestApp, Watched, message, violations};

fn path(session_id: Uuid) -> String {
    format!("/v1/sessions/{session_id}")
}

fn deletion(http: &Http, session_id: Uuid) -> impl Future<Output = (StatusCode, Value)> + Send + 'static {
    let http = http.clone();
    async move { http.delete(&path(session_id)).await }
}

/// A session with every kind of row, and its runs.
async fn full_session(app: &TestApp, http: &Http) -> (Uuid, Vec<Uuid>) {
    let session_id = http.create_session("test").await;
    let mut runs = vec![http.submit(session_id, "everything").await];
    app.work().await;
    http.resolve_all(runs[0], "approve_once").await;
    app.work().await;
    http.input(runs[0], "yes").await;
    app.work().await;
    http.run_in(runs[0], "COMPLETED").await;
    runs.push(http.submit(session_id, "write a file").await);
    app.work().await;
    (session_id, runs)
}

/// Rows of each table that belong to a session or to one of its runs.
async fn rows(pool: &PgPool, session_id: Uuid, runs: &[Uuid]) -> Vec<i64> {
    sqlx::query_scalar(
        "SELECT count(*) FROM sessions WHERE id = $1
         UNION ALL SELECT count(*) FROM runs WHERE session_id = $1
         UNION ALL SELECT count(*) FROM events WHERE session_id = $1
         UNION ALL SELECT count(*) FROM artifacts WHERE session_id = $1
         UNION ALL SELECT count(*) FROM approvals WHERE session_id = $1
         UNION ALL SELECT count(*) FROM questions WHERE run_id = ANY($2)
         UNION ALL SELECT count(*) FROM tool_invocations WHERE run_id = ANY($2)",
    )
    .bind(session_id)
    .bind(runs)
    .fetch_all(pool)
    .await
    .unwrap()
}

async fn queued(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM artifact_deletions").fetch_one(pool).await.unwrap()
}

/// The files that hold bytes of a session.
fn files(app: &TestApp, session_id: Uuid) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let sessions = below(&app.config.artifacts.folder).into_iter().flat_map(|tenant| below(&tenant));
    sessions.filter(|folder| folder.ends_with(session_id.to_string())).flat_map(|folder| below(&folder)).collect()
}

fn maintenance(app: &TestApp) -> Maintenance {
    let artifacts = ArtifactStore::open(&app.config.artifacts, app.clock.clone()).unwrap();
    Maintenance::new(app.pool.clone(), Notifier::off(), artifacts, 3)
}

#[tokio::test]
async fn everything_of_a_session_goes_and_nothing_else() {
    let app = TestApp::start().await;
    let (doomed, runs) = full_session(&app, &app.http).await;
    let (kept, kept_runs) = full_session(&app, &app.http).await;
    let approvals = app.http.get(&format!("/v1/approvals?session_id={doomed}")).await.1;
    let before = rows(&app.pool, kept, &kept_runs).await;
    assert!(before.iter().all(|count| *count > 0), "every table has rows: {before:?}");
    assert_eq!(rows(&app.pool, doomed, &runs).await, before);

    assert_eq!(app.http.delete(&path(doomed)).await, (StatusCode::NO_CONTENT, json!("")));
    assert_eq!(rows(&app.pool, doomed, &runs).await, [0; 7]);
    assert_eq!(rows(&app.pool, kept, &kept_runs).await, before);
    assert_eq!((queued(&app.pool).await, files(&app, doomed).len()), (2, 2));
    maintenance(&app).pass(Duration::ZERO).await.unwrap();
    assert_eq!((queued(&app.pool).await, files(&app, doomed).len(), files(&app, kept).len()), (0, 0, 2));

    let approval = approvals["items"][0]["id"].as_str().unwrap();
    for gone in [
        path(doomed),
        format!("{}/messages", path(doomed)),
        format!("{}/events", path(doomed)),
        format!("/v1/runs/{}", runs[0]),
        format!("/v1/runs/{}/events", runs[0]),
        format!("/v1/approvals/{approval}"),
    ] {
        assert_eq!(app.http.get(&gone).await.0, StatusCode::NOT_FOUND, "{gone}");
    }
    assert_eq!(app.http.delete(&path(doomed)).await.0, StatusCode::NOT_FOUND);
    assert_eq!(app.http.close(doomed).await.0, StatusCode::NOT_FOUND);
    assert_eq!(submission(&app.http, doomed).await.0, StatusCode::NOT_FOUND);
    assert_eq!(app.http.cancel(runs[0]).await.0, StatusCode::NOT_FOUND);
    app.finish().await;
}

#[tokio::test]
async fn bytes_that_the_store_does_not_delete_are_tried_again_and_hold_nothing_up() {
    let app = TestApp::start().await;
    let (session_id, _) = full_session(&app, &app.http).await;
    // A folder in the place of the file: what the store is asked to delete cannot be.
    let stuck = files(&app, session_id).remove(0);
    std::fs::remove_file(&stuck).unwrap();
    std::fs::create_dir_all(stuck.join("in the way")).unwrap();
    app.http.delete(&path(session_id)).await;

    let mut maintenance = maintenance(&app);
    maintenance.pass(Duration::ZERO).await.unwrap();
    assert_eq!((queued(&app.pool).await, files(&app, session_id)), (1, vec![stuck.clone()]));
    std::fs::remove_dir_all(&stuck).unwrap(); // and somebody else was quicker
    sqlx::query("UPDATE artifact_deletions SET due_at = due_at - interval '10 seconds'").execute(&app.pool).await.unwrap();
    maintenance.pass(Duration::from_secs(9)).await.unwrap();
    assert_eq!(queued(&app.pool).await, 1, "every ten seconds");
    maintenance.pass(Duration::from_secs(10)).await.unwrap();
    assert_eq!(queued(&app.pool).await, 0);
    app.finish().await;
}

#[tokio::test]
async fn a_session_with_an_unfinished_run_is_not_deleted() {
    let app = TestApp::start().await;
    for (text, status) in [("noop", "QUEUED"), ("publish news", "WAITING_FOR_APPROVAL"), ("ask", "WAITING_FOR_USER")] {
        let session_id = app.http.create_session("test").await;
        let run_id = app.http.submit(session_id, text).await;
        if status != "QUEUED" {
            app.work().await;
        }
        let before = rows(&app.pool, session_id, &[run_id]).await;
        let (answer, busy) = app.http.delete(&path(session_id)).await;
        let expected = json!({"reason": "active_run_exists", "run_id": run_id, "run_status": status});
        assert_eq!((answer, &busy["error"]["details"]), (StatusCode::CONFLICT, &expected), "{busy}");
        assert_eq!(rows(&app.pool, session_id, &[run_id]).await, before);
        app.http.cancel(run_id).await;
        assert_eq!(app.http.delete(&path(session_id)).await.0, StatusCode::NO_CONTENT);
    }
    app.finish().await;
}

#[tokio::test]
async fn a_key_whose_session_was_deleted_answers_404() {
    let app = TestApp::start().await;
    let post = |path: String, key: &'static str, body: Value| {
        let request = app.http.request(Method::POST, &path).header("Idempotency-Key", key).json(&body);
        async move {
            let response = request.send().await.unwrap();
            (response.status(), response.json::<Value>().await.unwrap())
        }
    };
    let create = || post("/v1/sessions".into(), "session", json!({"agent_id": "test"}));
    let session_id: Uuid = create().await.1["id"].as_str().unwrap().parse().unwrap();
    let submit = || post(format!("{}/messages", path(session_id)), "run", message("noop"));
    assert_eq!(submit().await.0, StatusCode::ACCEPTED);
    app.work().await;
    assert_eq!((create().await.0, submit().await.0), (StatusCode::OK, StatusCode::OK), "both are known");

    assert_eq!(app.http.delete(&path(session_id)).await.0, StatusCode::NO_CONTENT);
    for (answer, body) in [create().await, submit().await] {
        assert_eq!((answer, &body["error"]["code"]), (StatusCode::NOT_FOUND, &json!("not_found")), "{body}");
    }
    let keys: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotency_keys").fetch_one(&app.pool).await.unwrap();
    assert_eq!(keys, 2, "they stay until they expire");
    app.finish().await;
}

#[tokio::test]
async fn streams_of_a_deleted_session_end() {
    let app = TestApp::start().await;
    let (session_id, _) = full_session(&app, &app.http).await;
    let head: i64 = sqlx::query_scalar("SELECT last_sequence FROM sessions WHERE id = $1")
        .bind(session_id)
        .fetch_one(&app.pool)
        .await
        .unwrap();
    let mut from_start = Wire::open_of(&app.http, Watched::Session(session_id), None).await;
    let mut from_head = Wire::open_of(&app.http, Watched::Session(session_id), Some(head)).await;
    let others = app.http.create_session("test").await;
    let mut other = Wire::open_of(&app.http, Watched::Session(others), None).await;
    from_start.until_sequence(head).await;
    from_head.until_heartbeats(1).await;

    assert_eq!(app.http.delete(&path(session_id)).await.0, StatusCode::NO_CONTENT);
    from_start.until_end().await;
    from_head.until_end().await;
    assert_eq!((from_start.sequences().last(), from_head.sequences()), (Some(&head), Vec::new()));
    let again = Wire::open_of(&app.http, Watched::Session(session_id), Some(head)).await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
    other.until_heartbeats(4).await; // longer than it took to notice the other one
    app.finish().await;
}

/// In the middle of a replay, before the poll has noticed: the log has nothing for it any more, which is no defect.
#[tokio::test]
async fn a_replay_of_a_deleted_session_ends() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    for _ in 0..600 {
        append(&mut app.pool.acquire().await.unwrap(), session_id, None).await;
    }
    let followed = app.services.sessions.follow(&Principal::dev(), session_id, None).await.unwrap();
    let Followed::Stream(mut stream) = followed else { panic!("it is open") };
    assert_eq!(stream.next().await.unwrap().unwrap().len(), 500, "a page, and there are more");
    assert_eq!(app.http.delete(&path(session_id)).await.0, StatusCode::NO_CONTENT);
    // A page that had been read ahead may still come; then the end, and no error.
    while let Some(frames) = stream.next().await {
        assert!(frames.unwrap().len() <= 102, "there were no more");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_deletion_sees_what_it_waited_for() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let (submitted, deleted) =
        behind_each_other(&app, session_id, submission(&app.http, session_id), deletion(&app.http, session_id)).await;
    assert_eq!((submitted.0, deleted.0), (StatusCode::ACCEPTED, StatusCode::CONFLICT), "{submitted:?} {deleted:?}");
    assert_eq!(deleted.1["error"]["details"]["run_id"], submitted.1["run_id"]);
    app.work().await;

    let (closed, deleted) =
        behind_each_other(&app, session_id, closing(&app.http, session_id), deletion(&app.http, session_id)).await;
    // Closed, and perhaps gone before it could be shown.
    assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&closed.0), "{closed:?}");
    assert_eq!(deleted.0, StatusCode::NO_CONTENT, "{deleted:?}");
    let session_id = app.http.create_session("test").await;
    let (deleted, submitted) =
        behind_each_other(&app, session_id, deletion(&app.http, session_id), submission(&app.http, session_id)).await;
    assert_eq!((deleted.0, submitted.0), (StatusCode::NO_CONTENT, StatusCode::NOT_FOUND), "{deleted:?} {submitted:?}");
    let session_id = app.http.create_session("test").await;
    let (deleted, closed) =
        behind_each_other(&app, session_id, deletion(&app.http, session_id), closing(&app.http, session_id)).await;
    assert_eq!((deleted.0, closed.0), (StatusCode::NO_CONTENT, StatusCode::NOT_FOUND), "{deleted:?} {closed:?}");
    app.finish().await;
}

/// Everybody at once: messages, cancels, closes, deletions.
#[tokio::test]
async fn a_session_is_deleted_once_whoever_else_writes() {
    const ROUNDS: usize = 40;
    let app = TestApp::start().await;
    let working = Working::start(&app.worker);
    for round in 0..ROUNDS {
        let session_id = app.http.create_session("test").await;
        let owner = app.http.with_caller(Caller::new("dev", "dev"));
        let deleting = |http: Http| async move {
            let mut deleted = 0;
            loop {
                match http.delete(&path(session_id)).await.0 {
                    StatusCode::NO_CONTENT => deleted += 1,
                    StatusCode::NOT_FOUND => return deleted,
                    StatusCode::CONFLICT => {}
                    other => panic!("{other}"),
                }
            }
        };
        let writing = async {
            for _ in 0..4 {
                let (answer, submitted) = submission(&app.http, session_id).await;
                if answer == StatusCode::ACCEPTED {
                    let run_id = submitted["run_id"].as_str().unwrap().parse().unwrap();
                    let (cancelled, _) = app.http.cancel(run_id).await;
                    assert!(cancelled.is_success() || cancelled == StatusCode::NOT_FOUND, "{cancelled}");
                } else {
                    assert!([StatusCode::CONFLICT, StatusCode::NOT_FOUND].contains(&answer), "{answer}: {submitted}");
                }
            }
        };
        let (one, other, (), closed) =
            tokio::join!(deleting(owner.clone()), deleting(owner), writing, app.http.close(session_id));
        assert_eq!(one + other, 1, "round {round}: {closed:?}");
        assert_eq!(violations(&app.pool).await, Vec::<String>::new(), "round {round}");
    }
    let left: i64 = sqlx::query_scalar("SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM events)")
        .fetch_one(&app.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
    working.stop().await;
    app.finish().await;
}
