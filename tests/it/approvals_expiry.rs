//! Approvals that nobody answers, or that are answered in vain: each ends as what it is, and no run waits for ever.

use baton_core::execution::maintenance::Swept;
use nix::sys::signal::Signal;
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use uuid::Uuid;

use crate::support::{Asked, Caller, Follower, RealApp, TestApp, id, within};

/// A run that waits, with its open approvals.
async fn waiting(app: &TestApp, text: &str) -> (Uuid, Vec<Value>) {
    let run_id = app.http.start_run(text).await;
    app.work().await;
    (run_id, app.http.open_approvals(run_id).await)
}

async fn view(app: &TestApp, approval: &Value) -> Value {
    app.http.get(&format!("/v1/approvals/{}", id(&approval["id"]))).await.1
}

#[tokio::test]
async fn case_d4_a_run_ends_with_its_last_approval_unanswered() {
    let app = TestApp::start().await;
    let (run_id, approvals) = waiting(&app, "publish news").await;
    app.expire_in(Asked::Approval, id(&approvals[0]["id"]), -1).await;
    let swept = app.worker.sweep().await.unwrap().unwrap();
    assert_eq!(swept, Swept { runs_failed: 1, ..Swept::default() });
    is_expired(&app, run_id, &["expired"]).await;

    // The session goes on, and the next run is told nothing that is not so.
    let session_id = id(&app.http.run(run_id).await["session_id"]);
    let next = app.http.submit(session_id, "noop").await;
    app.work().await;
    assert_eq!(app.http.run(next).await["status"], "COMPLETED");
    app.finish().await;
}

#[tokio::test]
async fn case_d5_expired_is_neither_denied_nor_cancelled() {
    let app = TestApp::start().await;
    let (run_id, approvals) = waiting(&app, "publish three times").await;
    assert_eq!(app.http.resolve(&approvals[0], "approve_once").await.0, StatusCode::OK);
    app.expire_in(Asked::Approval, id(&approvals[1]["id"]), -1).await;
    // Nobody may approve it although maintenance has not come by.
    let (status, error) = app.http.resolve(&approvals[1], "approve_once").await;
    assert_eq!((status, &error["error"]["details"]), (StatusCode::CONFLICT, &json!({"status": "EXPIRED"})));
    app.worker.sweep().await.unwrap();
    is_expired(&app, run_id, &["approve_once", "expired", "cancelled"]).await;
    for (approval, status) in approvals.iter().zip(["APPROVED", "EXPIRED", "CANCELLED"]) {
        let view = view(&app, approval).await;
        let by = if status == "APPROVED" { json!("dev") } else { Value::Null };
        assert_eq!((&view["status"], &view["resolved_by"]), (&json!(status), &by));
        assert!(view["resolved_at"].is_string(), "{view}");
    }
    app.finish().await;
}

/// It failed for its approval, with these decisions, and nobody executes it or anything of it again.
async fn is_expired(app: &TestApp, run_id: Uuid, decisions: &[&str]) {
    app.worker.renew().await.unwrap();
    assert_eq!(app.worker.tick().await.unwrap(), 0, "nothing is due");
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["failure"]["reason"]), (&json!("FAILED"), &json!("approval_expired")));
    assert!(app.effects().is_empty());
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    let data = |event: &str| {
        let frames = follower.frames.iter().filter(|frame| frame.event() == event).map(|frame| frame.data.clone().unwrap());
        frames.collect::<Vec<Value>>()
    };
    let told: Vec<Value> = data("approval.resolved").iter().map(|body| body["decision"].clone()).collect();
    assert_eq!(told.iter().filter_map(Value::as_str).collect::<Vec<_>>(), decisions);
    assert!(data("approval.resolved").iter().skip(decisions.len() - 1).all(|body| body.get("resolved_by").is_none()));
    assert!(data("run.resumed").is_empty() && data("run.requeued").is_empty());
}

#[tokio::test]
async fn case_d8_a_decision_whose_wake_up_is_lost_resumes_its_run() {
    /// A poll, and two busy cores; there are no notifications, and a decision is no event that anybody polls for but a worker.
    const RESUMED_WITHIN: Duration = Duration::from_secs(3);

    let mut app = RealApp::start(&[("BATON_DATABASE__NOTIFICATIONS", "off"), ("BATON_FAULTS", "AfterResolve=kill")]).await;
    let _worker = app.start_worker().await;
    let run_id = app.http.start_run("publish news").await;
    let approvals = app.http.open_approvals(run_id).await;
    let path = format!("/v1/approvals/{}/resolve", id(&approvals[0]["id"]));
    let unanswered = app.http.request(reqwest::Method::POST, &path).json(&json!({"decision": "approve_once"})).send().await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    assert_eq!(app.api.as_mut().unwrap().ended().await.signal(), Some(Signal::SIGKILL as i32));
    within(RESUMED_WITHIN, "the run has gone on", || async {
        let status = sqlx::query_scalar::<_, String>("SELECT status FROM runs WHERE id = $1").bind(run_id);
        (status.fetch_one(&app.pool).await.unwrap() == "COMPLETED").then_some(())
    })
    .await;
    app.restart_api().await;
    // Whoever was not answered asks again.
    assert_eq!(app.http.resolve(&approvals[0], "approve_once").await.0, StatusCode::OK);
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn case_d9_a_run_that_waits_for_nothing_goes_on_or_ends() {
    let app = TestApp::start().await;
    let (miscounted, approvals) = waiting(&app, "publish news").await;
    let (decided, _) = waiting(&app, "publish news").await;
    let (gone, _) = waiting(&app, "publish twice").await;
    let (fine, _) = waiting(&app, "publish news").await;
    // Against every rule of the product: the counter, a decision without its event, approvals that are gone.
    edit(&app, "UPDATE runs SET pending_approvals = 2 WHERE id = $1", miscounted).await;
    assert_eq!(app.http.resolve(&approvals[0], "approve_once").await.0, StatusCode::OK);
    assert_eq!(app.http.run(miscounted).await["status"], "WAITING_FOR_APPROVAL");
    edit(&app, "UPDATE approvals SET status = 'APPROVED', resolved_at = now(), resolved_by = 'sql' WHERE run_id = $1", decided)
        .await;
    edit(&app, "DELETE FROM approvals WHERE run_id = $1", gone).await;
    // Longer ago than a decision may be under way.
    for run_id in [miscounted, decided, gone, fine] {
        edit(&app, "UPDATE runs SET status_since = status_since - interval '1 hour' WHERE id = $1", run_id).await;
        edit(&app, "UPDATE approvals SET created_at = created_at - interval '1 hour' WHERE run_id = $1", run_id).await;
    }

    let swept = app.worker.sweep().await.unwrap().unwrap();
    assert_eq!(swept, Swept { runs_repaired: 3, ..Swept::default() });
    for run_id in [decided, gone] {
        let run = app.http.run(run_id).await;
        assert_eq!((&run["status"], &run["failure"]["reason"]), (&json!("FAILED"), &json!("internal_error")));
    }
    assert_eq!(app.http.run(fine).await["status"], "WAITING_FOR_APPROVAL");
    app.work().await;
    assert_eq!(app.http.run(miscounted).await["status"], "COMPLETED");
    assert_eq!(app.effects().len(), 1, "of the one that a person approved");
    for run_id in [gone, decided] {
        let session_id = id(&app.http.run(run_id).await["session_id"]);
        let next = app.http.submit(session_id, "noop").await;
        app.work().await;
        assert_eq!(app.http.run(next).await["status"], "COMPLETED", "the session goes on");
    }
    app.finish_unaudited().await;
}

async fn edit(app: &TestApp, statement: &'static str, run_id: Uuid) {
    sqlx::query(statement).bind(run_id).execute(&app.pool).await.unwrap();
}

#[tokio::test]
async fn case_d16_an_answer_that_nobody_waits_for_is_refused() {
    let app = TestApp::start().await;
    let (run_id, cancelled) = waiting(&app, "publish news").await;
    let stranger = app.http.with_caller(Caller::new("other", "dev"));
    let missing = json!({"id": "01900000-0000-7000-8000-000000000000"});
    for (http, approval) in [(&app.http, &missing), (&stranger, &cancelled[0]), (&app.http, &json!({"id": run_id}))] {
        let (status, error) = http.resolve(approval, "approve_once").await;
        assert_eq!((status, &error["error"]["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
    }
    assert_eq!(app.http.cancel(run_id).await.0, StatusCode::OK);

    let (_, expired) = waiting(&app, "publish news").await;
    app.expire_in(Asked::Approval, id(&expired[0]["id"]), -1).await;
    app.worker.sweep().await.unwrap();
    for (approval, standing) in [(&cancelled[0], "CANCELLED"), (&expired[0], "EXPIRED")] {
        for decision in ["approve_once", "deny"] {
            let (status, error) = app.http.resolve(approval, decision).await;
            assert_eq!((status, &error["error"]["code"]), (StatusCode::CONFLICT, &json!("invalid_state_transition")));
            assert_eq!(error["error"]["details"], json!({"status": standing}));
        }
        assert_eq!(view(&app, approval).await["status"], standing);
    }
    app.worker.renew().await.unwrap();
    assert_eq!(app.worker.tick().await.unwrap(), 0);
    assert!(app.effects().is_empty());
    app.finish().await;
}

#[tokio::test]
async fn case_d22_a_run_may_wait_longer_than_anybody_lives() {
    let app = TestApp::start().await;
    let (run_id, _) = waiting(&app, "publish news").await;
    let before = app.http.run(run_id).await;
    for _ in 0..5 {
        app.expire_workers().await;
        let next = app.another_worker(app.faults.clone()).await;
        let swept = next.sweep().await.unwrap().unwrap();
        assert_eq!((swept.runs_requeued, swept.runs_failed, swept.runs_repaired), (0, 0, 0));
        assert_eq!(next.tick().await.unwrap(), 0);
    }
    assert_eq!(app.http.run(run_id).await, before);
    app.http.resolve_all(run_id, "approve_once").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}
