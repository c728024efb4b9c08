//! Calls whose process dies under them: what becomes of each class, before and after its mark.

use std::sync::Arc;

use baton_core::config::Config;
use baton_core::fault::{Action, Faults, Point};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{Gates, TestApp, bodies_of, calls_of, eventually, policies_folder, test_tools, unreachable_conditional};

async fn start() -> TestApp {
    TestApp::start_with_tools(|effects| test_tools(effects, &Gates::new()), |_| {}).await
}

/// One call of the tool, whose process dies as it comes by the point; another process goes on.
async fn interrupt(app: &TestApp, tool: &str, point: Point) -> Uuid {
    let run_id = die(app, &format!("call {tool}"), point).await;
    app.work().await;
    run_id
}

/// A run whose process dies as it comes by the point, back in the queue.
async fn die(app: &TestApp, text: &str, point: Point) -> Uuid {
    let faults = Faults::default();
    faults.arm(point, Action::Pause(Arc::new(Semaphore::new(0))), 1);
    let doomed = app.another_worker(faults.clone()).await;
    let run_id = app.http.start_run_of("trusted", text).await;
    let execution = tokio::spawn(async move { doomed.tick().await.unwrap() });
    eventually(&format!("`{text}` comes by {point:?}"), || async { (!faults.is_armed(point)).then_some(()) }).await;
    execution.abort();
    app.lose_workers(run_id).await;
    run_id
}

/// After the death the run has completed, the call has this status, and so many effects; all with the key of its row.
async fn check(app: &TestApp, (tool, point, status, effects): (&str, Point, &str, usize)) {
    let what = format!("`{tool}` that died at {point:?}");
    let before = app.effects().len();
    let run_id = interrupt(app, tool, point).await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED", "{what}");
    assert_eq!(calls_of(&app.pool, run_id).await, [format!("{tool} {status}")], "{what}");
    let lines = app.effects().split_off(before);
    assert_eq!(lines.len(), effects, "{what}: {lines:?}");
    let query = sqlx::query_scalar("SELECT idempotency_key FROM tool_invocations WHERE run_id = $1").bind(run_id);
    let key: String = query.fetch_one(&app.pool).await.unwrap();
    for line in lines {
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["key"], json!(key), "{what}");
    }
    for once in ["tool.call.proposed", "tool.call.authorized", "tool.call.started"] {
        assert_eq!(bodies_of(&app.pool, run_id, once).await.len(), 1, "{what}: {once}");
    }
    let answer = &bodies_of(&app.pool, run_id, "assistant.message.completed").await[0]["content"][0]["text"];
    let expected = if status == "UNCERTAIN" { "Done: Whether the call had its effect is unknown." } else { "Done: " };
    assert_eq!(answer, expected, "{what}: what the model was told");
}

#[tokio::test]
async fn gate_b4_a_call_that_may_be_repeated_is_repeated_with_its_key() {
    let app = start().await;
    for case in [
        ("test.read", Point::BeforeTool, "COMPLETED", 1),
        ("test.read", Point::AfterTool, "COMPLETED", 2),
        ("test.idempotent", Point::BeforeTool, "COMPLETED", 1),
        ("test.idempotent", Point::EffectSent, "COMPLETED", 2),
        ("test.idempotent", Point::ResultRecorded, "COMPLETED", 1),
        ("test.conditional", Point::EffectMarked, "COMPLETED", 1),
        ("test.conditional", Point::EffectSent, "COMPLETED", 2),
        ("test.conditional", Point::ResultFitted, "COMPLETED", 2),
    ] {
        check(&app, case).await;
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_b4_case_d18_a_call_that_must_not_be_repeated_is_uncertain_after_its_mark() {
    let app = start().await;
    for case in [
        ("test.write", Point::IntentRecorded, "COMPLETED", 1),
        ("test.write", Point::BeforeTool, "COMPLETED", 1),
        ("test.write", Point::EffectMarked, "UNCERTAIN", 0),
        ("test.write", Point::EffectSent, "UNCERTAIN", 1),
        ("test.write", Point::AfterTool, "UNCERTAIN", 1),
        ("test.write", Point::ResultFitted, "UNCERTAIN", 1),
        ("test.write", Point::ResultRecorded, "COMPLETED", 1),
    ] {
        check(&app, case).await;
    }
    app.finish().await;
}

#[tokio::test]
async fn a_started_call_that_is_not_allowed_any_more_is_not_made_again() {
    let app = start().await;
    for (tool, point, status, effects) in [
        ("test.write", Point::BeforeTool, "FAILED", 0),
        ("test.conditional", Point::BeforeTool, "FAILED", 0),
        ("test.idempotent", Point::EffectSent, "UNCERTAIN", 1),
        ("test.conditional", Point::EffectSent, "UNCERTAIN", 1),
    ] {
        let before = app.effects().len();
        let run_id = die(&app, &format!("call {tool}"), point).await;
        let tools = test_tools(&app.effects_file(), &Gates::new());
        let disable = |config: &mut Config| config.tools.disabled = vec![tool.into()];
        let heir = app.another_worker_with(Faults::default(), &tools, disable).await;
        heir.tick().await.unwrap();
        assert_eq!(calls_of(&app.pool, run_id).await, [format!("{tool} {status}")], "{tool} at {point:?}");
        assert_eq!(app.effects().len() - before, effects, "{tool} at {point:?}");
    }
    app.finish().await;
}

#[tokio::test]
async fn no_run_waits_with_a_call_under_way() {
    let app = start().await;
    // A call that is started, and others that were authorized; then the policy wants to be asked about all of them.
    let run_id = die(&app, "slow batch", Point::BeforeTool).await;
    let folder = tempfile::tempdir().unwrap();
    let trusted = std::fs::read_to_string(policies_folder().join("trusted.toml")).unwrap();
    let strict = trusted.replace("external_write = \"allow\"", "external_write = \"require_approval\"");
    assert_ne!(strict, trusted);
    std::fs::write(folder.path().join("trusted.toml"), strict).unwrap();
    let tools = test_tools(&app.effects_file(), &Gates::new());
    let stricter = |config: &mut Config| config.policy.folder = Some(folder.path().to_owned());
    let heir = app.another_worker_with(Faults::default(), &tools, stricter).await;
    heir.tick().await.unwrap();
    assert_eq!(app.http.open_approvals(run_id).await.len(), 1);
    assert_eq!(
        calls_of(&app.pool, run_id).await,
        ["test.slow DENIED", "test.write WAITING", "test.read AUTHORIZED"],
        "nothing of the first was done"
    );
    assert_eq!(app.http.cancel(run_id).await.1["status"], "CANCELLED");
    assert!(app.effects().is_empty());
    app.finish().await;
}

#[tokio::test]
async fn a_repeated_call_that_fails_says_nothing_of_the_first_try() {
    let app = start().await;
    let run_id = die(&app, "call test.conditional", Point::EffectSent).await;
    let tools = [unreachable_conditional(&app.effects_file())];
    let heir = app.another_worker_with(Faults::default(), &tools, |_| {}).await;
    heir.tick().await.unwrap();
    assert_eq!(calls_of(&app.pool, run_id).await, ["test.conditional UNCERTAIN"]);
    app.finish().await;
}

#[tokio::test]
async fn an_effect_whose_result_is_lost_is_not_repeated_for_it() {
    let app = start().await;
    let run_id = app.http.start_run_of("trusted", "call test.wrong_late").await;
    app.work().await;
    assert_eq!(calls_of(&app.pool, run_id).await, ["test.wrong_late COMPLETED"]);
    let completed = &bodies_of(&app.pool, run_id, "tool.call.completed").await[0];
    assert_eq!(completed["result"], json!({"done": true, "result_lost": "tool_result_invalid"}));
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}
