//! Closing a session: once, and never over a run.

use baton_core::Scope;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use crate::events_wire::Working;
use crate::support::{Caller, Http, TestApp, eventually, message, violations};

/// How many statements wait for a lock in the test's database, and stay in line: a batch of submissions gives up soon.
pub(crate) async fn blocked(pool: &PgPool, count: i64) {
    let waiting = || async {
        let blocked: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name <> 'baton submissions'",
        )
        .fetch_one(pool)
        .await
        .unwrap();
        (blocked == count).then_some(())
    };
    eventually(&format!("{count} statements wait for a lock"), waiting).await;
}

/// Two requests that come while somebody else holds the session's row, the second behind the first; and their answers.
pub(crate) async fn behind_each_other<A, B>(
    app: &TestApp,
    session_id: Uuid,
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
) -> (A, B)
where
    A: Send + 'static,
    B: Send + 'static,
{
    let mut holding = app.pool.begin().await.unwrap();
    sqlx::query("SELECT id FROM sessions WHERE id = $1 FOR UPDATE").bind(session_id).execute(&mut *holding).await.unwrap();
    let first = tokio::spawn(first);
    blocked(&app.pool, 1).await;
    let second = tokio::spawn(second);
    blocked(&app.pool, 2).await;
    holding.rollback().await.unwrap();
    (first.await.unwrap(), second.await.unwrap())
}

/// A message to a session, by a task of its own.
pub(crate) fn submission(http: &Http, session_id: Uuid) -> impl Future<Output = (StatusCode, Value)> + Send + 'static {
    let http = http.clone();
    async move { http.post(&format!("/v1/sessions/{session_id}/messages"), &message("noop")).await }
}

pub(crate) fn closing(http: &Http, session_id: Uuid) -> impl Future<Output = (StatusCode, Value)> + Send + 'static {
    let http = http.clone();
    async move { http.close(session_id).await }
}

async fn closed_events(pool: &PgPool, session_id: Uuid) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM events WHERE session_id = $1 AND type = 'session.closed'")
        .bind(session_id)
        .fetch_one(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_session_closes_once_its_runs_have_ended() {
    let app = TestApp::start().await;
    for (text, status) in [("noop", "QUEUED"), ("publish news", "WAITING_FOR_APPROVAL"), ("ask", "WAITING_FOR_USER")] {
        let session_id = app.http.create_session("test").await;
        let run_id = app.http.submit(session_id, text).await;
        if status != "QUEUED" {
            app.work().await;
        }
        let (answer, busy) = app.http.close(session_id).await;
        let expected = json!({"reason": "active_run_exists", "run_id": run_id, "run_status": status});
        assert_eq!((answer, &busy["error"]["details"]), (StatusCode::CONFLICT, &expected), "{busy}");
        app.http.cancel(run_id).await;
        let before = app.http.get(&format!("/v1/sessions/{session_id}")).await.1;
        assert_eq!((&before["active_run_id"], &before["last_run_id"]), (&Value::Null, &json!(run_id)));

        for _ in 0..2 {
            let (answer, session) = app.http.close(session_id).await;
            assert_eq!((answer, &session["status"]), (StatusCode::OK, &json!("CLOSED")), "{session}");
            assert_eq!(session["updated_at"], before["updated_at"], "it moves with messages and ends of runs");
        }
        assert_eq!(closed_events(&app.pool, session_id).await, 1);
        let (answer, refused) = submission(&app.http, session_id).await;
        assert_eq!((answer, &refused["error"]["details"]["reason"]), (StatusCode::CONFLICT, &json!("session_closed")));
        assert_eq!(app.http.get(&format!("/v1/sessions/{session_id}/messages")).await.0, StatusCode::OK);
    }
    app.finish().await;
}

#[tokio::test]
async fn ends_of_sessions_are_refused_in_the_order_of_the_checks() {
    let app = TestApp::start().await;
    let owner = app.http.with_caller(Caller::new("acme", "alice"));
    let session_id = owner.create_session("test").await;
    let as_whom = |tenant: &str, principal: &str, scopes: &[Scope]| {
        app.http.with_caller(Caller { scopes: Some(scopes.to_vec()), ..Caller::new(tenant, principal) })
    };
    let (write, read) = ([Scope::SessionWrite, Scope::OperatorRead, Scope::SessionRead], [Scope::SessionRead, Scope::RunWrite]);
    let missing = Uuid::from_u128(1);
    for (http, id, query, expected) in [
        (as_whom("acme", "alice", &read), session_id.to_string(), "", StatusCode::FORBIDDEN),
        (as_whom("acme", "alice", &read), "x".into(), "?x=1", StatusCode::FORBIDDEN),
        (as_whom("other", "alice", &write), session_id.to_string(), "", StatusCode::NOT_FOUND),
        // Who may read what is others' may not end it.
        (as_whom("acme", "bob", &write), session_id.to_string(), "", StatusCode::NOT_FOUND),
        (as_whom("acme", "bob", &write), session_id.to_string(), "?x=1", StatusCode::NOT_FOUND),
        (as_whom("acme", "alice", &write), missing.to_string(), "?x=1", StatusCode::NOT_FOUND),
        (as_whom("acme", "alice", &write), "x".into(), "", StatusCode::NOT_FOUND),
        (as_whom("acme", "alice", &write), session_id.to_string(), "?x=1", StatusCode::BAD_REQUEST),
    ] {
        let (closed, answer) = http.ask(&format!("/v1/sessions/{id}/close{query}")).await;
        assert_eq!(closed, expected, "{id}{query}: {answer}");
        let (deleted, answer) = http.delete(&format!("/v1/sessions/{id}{query}")).await;
        assert_eq!(deleted, expected, "{id}{query}: {answer}");
    }
    let session = owner.get(&format!("/v1/sessions/{session_id}")).await.1;
    assert_eq!((&session["status"], &session["principal_id"]), (&json!("ACTIVE"), &json!("alice")));
    app.finish().await;
}

/// A close that waited for a submission has a snapshot without its run.
#[tokio::test]
async fn a_close_sees_the_run_of_the_submission_that_it_waited_for() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let (submitted, closed) =
        behind_each_other(&app, session_id, submission(&app.http, session_id), closing(&app.http, session_id)).await;
    assert_eq!((submitted.0, closed.0), (StatusCode::ACCEPTED, StatusCode::CONFLICT), "{submitted:?} {closed:?}");
    assert_eq!(closed.1["error"]["details"]["run_id"], submitted.1["run_id"]);
    app.work().await;

    let (closed, submitted) =
        behind_each_other(&app, session_id, closing(&app.http, session_id), submission(&app.http, session_id)).await;
    assert_eq!((closed.0, submitted.0), (StatusCode::OK, StatusCode::CONFLICT), "{closed:?} {submitted:?}");
    assert_eq!(submitted.1["error"]["details"]["reason"], "session_closed");
    app.finish().await;
}

#[tokio::test]
async fn a_closed_session_never_has_an_unfinished_run() {
    const ROUNDS: usize = 60;
    let app = TestApp::start().await;
    let working = Working::start(&app.worker);
    let (mut closed, mut busy) = (0, 0);
    for round in 0..ROUNDS {
        let session_id = app.http.create_session("test").await;
        let writers = async {
            for _ in 0..3 {
                submission(&app.http, session_id).await;
            }
        };
        let closers = async {
            for _ in 0..round % 5 {
                tokio::task::yield_now().await;
            }
            let (one, other) = tokio::join!(app.http.close(session_id), app.http.close(session_id));
            [one.0, other.0]
        };
        let ((), answers) = tokio::join!(writers, closers);
        for answer in answers {
            match answer {
                StatusCode::OK => closed += 1,
                StatusCode::CONFLICT => busy += 1,
                other => panic!("{other}"),
            }
        }
        assert_eq!(violations(&app.pool).await, Vec::<String>::new(), "round {round}");
        let close = || async { (app.http.close(session_id).await.0 == StatusCode::OK).then_some(()) };
        eventually("the session closes", close).await;
        assert_eq!(closed_events(&app.pool, session_id).await, 1, "round {round}");
    }
    assert!(closed > 0 && busy > 0, "{closed} closed, {busy} were refused");
    working.stop().await;
    app.finish().await;
}
