//! Decisions that meet: of each approval one stands, whoever else decides, expires or cancels at the same moment; and the last
//! one always sends its run on.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_core::approvals::{ResolveApproval, Verdict};
use baton_core::{Error, Principal};
use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Asked, Caller, TestApp, id, policies_folder};

/// Runs of a race: each is a round.
const ROUNDS: usize = 40;

/// Runs that wait, with their open approvals.
async fn waiting(app: &TestApp, text: &str, count: usize) -> Vec<(Uuid, Vec<Value>)> {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(app.http.start_run(text).await);
    }
    app.work().await;
    let mut waiting = Vec::new();
    for run_id in runs {
        waiting.push((run_id, app.http.open_approvals(run_id).await));
    }
    waiting
}

/// Decisions of the log of a run, in order.
async fn decisions(app: &TestApp, run_id: Uuid) -> Vec<String> {
    let query =
        "SELECT body::jsonb ->> 'decision' FROM events WHERE run_id = $1 AND type = 'approval.resolved' ORDER BY sequence";
    sqlx::query_scalar(query).bind(run_id).fetch_all(&app.pool).await.unwrap()
}

fn verdict(decision: Verdict) -> ResolveApproval {
    ResolveApproval { decision, reason: None }
}

#[tokio::test]
async fn case_d1_twenty_approvals_of_one_call_have_one_effect() {
    let app = TestApp::start().await;
    let (run_id, approvals) = waiting(&app, "publish news", 1).await.remove(0);
    let answers = join_all((0..20).map(|_| app.http.resolve(&approvals[0], "approve_once"))).await;
    for (status, view) in &answers {
        assert_eq!((*status, &view["decision"]), (StatusCode::OK, &json!("approve_once")), "{view}");
        assert_eq!(view, &answers[0].1);
    }
    assert_eq!(decisions(&app, run_id).await, ["approve_once"]);
    app.work().await;
    assert_eq!(app.effects().len(), 1);
    assert_eq!(app.http.resolve(&approvals[0], "approve_once").await.0, StatusCode::OK, "long after, too");
    assert_eq!(decisions(&app, run_id).await, ["approve_once"]);
    app.finish().await;
}

#[tokio::test]
async fn case_d2_of_two_different_decisions_one_stands() {
    let app = TestApp::start().await;
    let callers = ["alice", "bob"].map(|name| app.http.with_caller(Caller::new("dev", name)));
    let mut effects = 0;
    for (run_id, approvals) in waiting(&app, "publish news", ROUNDS / 2).await {
        let decided = [callers[0].resolve(&approvals[0], "approve_once"), callers[1].resolve(&approvals[0], "deny")];
        let decided = join_all(decided).await;
        let winner = usize::from(decided[1].0 == StatusCode::OK);
        let (won, lost) = (&decided[winner], &decided[1 - winner]);
        let decision = ["approve_once", "deny"][winner];
        assert_eq!(won.0, StatusCode::OK, "{decided:?}");
        assert_eq!((&won.1["decision"], &won.1["resolved_by"]), (&json!(decision), &json!(["alice", "bob"][winner])));
        let late = app.http.resolve(&approvals[0], ["deny", "approve_once"][winner]).await;
        for (status, error) in [lost, &late] {
            assert_eq!(*status, StatusCode::CONFLICT, "{error}");
            let standing =
                json!({"reason": "approval_already_resolved", "approval_id": approvals[0]["id"], "decision": decision});
            assert_eq!(error["error"]["details"], standing);
        }
        assert_eq!(decisions(&app, run_id).await, [decision]);
        effects += 1 - winner;
    }
    app.work().await;
    assert_eq!(app.effects().len(), effects);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_c10_of_approval_expiry_and_cancel_one_wins() {
    let app = TestApp::start().await;
    let principal = Principal::dev();
    let mut ends = BTreeSet::new();
    let mut effects = 0;
    for (round, (run_id, approvals)) in waiting(&app, "publish news", ROUNDS).await.into_iter().enumerate() {
        let approval = id(&approvals[0]["id"]);
        // Over when the three have begun, or just before, or a moment later.
        app.expire_in(Asked::Approval, approval, i32::try_from(round % 8).unwrap() - 1).await;
        let (approved, cancelled, swept) = tokio::join!(
            app.services.approvals.resolve(&principal, approval, verdict(Verdict::ApproveOnce)),
            async {
                // Not in every round: it would win most of them.
                if round % 2 == 0 {
                    Some(app.services.runs.cancel(&principal, run_id, Duration::ZERO).await.unwrap())
                } else {
                    None
                }
            },
            app.worker.sweep(),
        );
        swept.unwrap();
        app.worker.sweep().await.unwrap();
        let status = |view: &Value| view["status"].as_str().unwrap().to_owned();
        let ended = status(&app.http.get(&format!("/v1/approvals/{approval}")).await.1);
        let run = app.http.run(run_id).await;
        let expected: &[&str] = match (ended.as_str(), &approved) {
            // An answered run is queued, and may be cancelled as such.
            ("APPROVED", Ok(_)) => &["QUEUED", "CANCELLED"],
            ("EXPIRED", Err(Error::ApprovalClosed(_))) => &["FAILED"],
            ("CANCELLED", Err(Error::ApprovalClosed(_))) => &["CANCELLED"],
            // Past its time before its run was ended by the other: its end says which.
            other => panic!("round {round}: {other:?}, {run}"),
        };
        assert!(expected.contains(&run["status"].as_str().unwrap()), "round {round}: {ended}, {run}");
        assert_eq!(decisions(&app, run_id).await.len(), 1, "round {round}");
        if let Some(cancelled) = cancelled {
            assert_eq!(cancelled.status.to_string() == "CANCELLED", run["status"] == "CANCELLED", "round {round}: {run}");
        }
        effects += usize::from(run["status"] == "QUEUED");
        ends.insert(ended);
    }
    app.work().await;
    assert_eq!(app.effects().len(), effects, "what was approved was done, and nothing else");
    println!("ends: {ends:?}, {effects} effects");
    assert!(ends.len() > 1, "only one ever won: {ends:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_c10_the_last_two_approvals_answered_at_once_requeue_the_run() {
    let app = TestApp::start().await;
    let principal = Principal::dev();
    for (run_id, approvals) in waiting(&app, "publish twice", ROUNDS).await {
        let [first, second] = [0, 1].map(|at| id(&approvals[at]["id"]));
        let (first, second) = tokio::join!(
            app.services.approvals.resolve(&principal, first, verdict(Verdict::ApproveOnce)),
            app.services.approvals.resolve(&principal, second, verdict(Verdict::Deny)),
        );
        first.and(second).unwrap();
        assert_eq!(app.http.run(run_id).await["status"], "QUEUED");
    }
    app.work().await;
    assert_eq!(app.effects().len(), ROUNDS);
    app.finish().await;
}

#[tokio::test]
async fn case_d13_who_decides_is_who_asks() {
    let app = TestApp::start().await;
    let (run_id, approvals) = waiting(&app, "publish news", 1).await.remove(0);
    let path = format!("/v1/approvals/{}/resolve", id(&approvals[0]["id"]));
    let approve = json!({"decision": "approve_once"});
    for name in ["decided_by", "resolved_by", "principal"] {
        let (status, error) = app.http.post(&path, &json!({"decision": "approve_once", name: "somebody"})).await;
        assert_eq!((status, &error["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("malformed_request")));
    }
    // Whoever may do everything else may not decide; nobody of another tenant knows of it.
    let all_but_one: Vec<_> =
        baton_core::Scope::ALL.iter().copied().filter(|scope| *scope != baton_core::Scope::ApprovalResolve).collect();
    let unable = app.http.with_caller(Caller { scopes: Some(all_but_one), ..Caller::new("dev", "dev") });
    assert_eq!(unable.post(&path, &approve).await.0, StatusCode::FORBIDDEN);
    let stranger = app.http.with_caller(Caller::new("other", "dev"));
    assert_eq!(stranger.post(&path, &approve).await.0, StatusCode::NOT_FOUND);
    assert!(decisions(&app, run_id).await.is_empty());

    let (status, view) = app.http.with_caller(Caller::new("dev", "carol")).post(&path, &approve).await;
    assert_eq!((status, &view["resolved_by"]), (StatusCode::OK, &json!("carol")));
    app.work().await;
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn case_d13_nobody_approves_what_they_asked_for_where_the_profile_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies/default.toml");
    let strict = std::fs::read_to_string(shipped)
        .unwrap()
        .replace("require_distinct_approver = false", "require_distinct_approver = true");
    assert!(strict.contains("= true"), "{strict}");
    std::fs::write(folder.path().join("default.toml"), strict).unwrap();
    std::fs::copy(policies_folder().join("trusted.toml"), folder.path().join("trusted.toml")).unwrap();
    let app = TestApp::start_with(|config| config.policy.folder = Some(folder.path().to_owned())).await;

    let waiting = waiting(&app, "publish news", 2).await;
    let (own, other) = (&waiting[0].1[0], &waiting[1].1[0]);
    let (status, error) = app.http.resolve(own, "approve_once").await;
    assert_eq!((status, &error["error"]["code"]), (StatusCode::FORBIDDEN, &json!("authorization_error")));
    assert_eq!(app.http.run(waiting[0].0).await["status"], "WAITING_FOR_APPROVAL");
    let colleague = app.http.with_caller(Caller::new("dev", "colleague"));
    assert_eq!(colleague.resolve(own, "approve_once").await.0, StatusCode::OK);
    // To say no to oneself is always allowed.
    assert_eq!(app.http.resolve(other, "deny").await.0, StatusCode::OK);
    app.work().await;
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn case_d14_each_call_of_a_turn_has_an_approval_of_its_own() {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let app = TestApp::start().await;
    for (order, (run_id, approvals)) in ORDERS.iter().zip(waiting(&app, "publish three times", ORDERS.len()).await) {
        let ids: BTreeSet<Uuid> = approvals.iter().map(|approval| id(&approval["id"])).collect();
        let contents: Vec<&Value> = approvals.iter().map(|approval| &approval["arguments"]["content"]).collect();
        assert_eq!((ids.len(), contents), (3, vec![&json!("same"), &json!("other"), &json!("same")]));
        // The first of the two that are alike is approved, and the one that is not.
        for at in order {
            assert_eq!(app.http.run(run_id).await["status"], "WAITING_FOR_APPROVAL");
            let decision = if *at == 2 { "deny" } else { "approve_once" };
            assert_eq!(app.http.resolve(&approvals[*at], decision).await.0, StatusCode::OK);
        }
        assert_eq!(app.http.run(run_id).await["status"], "QUEUED");
    }
    app.work().await;
    let results: Vec<(i32, String)> =
        sqlx::query_as("SELECT call_index, status FROM tool_invocations ORDER BY run_id, call_index")
            .fetch_all(&app.pool)
            .await
            .unwrap();
    let results: Vec<(i32, &str)> = results.iter().map(|(index, status)| (*index, status.as_str())).collect();
    assert_eq!(results, [(0, "COMPLETED"), (1, "COMPLETED"), (2, "DENIED")].repeat(ORDERS.len()));
    assert_eq!(app.effects().len(), 2 * ORDERS.len());
    app.finish().await;
}
