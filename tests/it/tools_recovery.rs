//! Calls whose process dies under them: what becomes of each class, before and after its mark.

use std::sync::Arc;

use baton_core::fault::{Action, Faults, Point};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{Gates, TestApp, bodies_of, calls_of, eventually, test_tools};

async fn start() -> TestApp {
    TestApp::start_with_tools(|effects| test_tools(effects, &Gates::new()), |_| {}).await
}

/// One call of the tool, whose process dies as it comes by the point; another process goes on.
async fn interrupt(app: &TestApp, tool: &str, point: Point) -> Uuid {
    let faults = Faults::default();
    faults.arm(point, Action::Pause(Arc::new(Semaphore::new(0))), 1);
    let doomed = app.another_worker(faults.clone()).await;
    let run_id = app.http.start_run_of("trusted", &format!("call {tool}")).await;
    let execution = tokio::spawn(async move { doomed.tick().await.unwrap() });
    eventually(&format!("`{tool}` comes by {point:?}"), || async { (!faults.is_armed(point)).then_some(()) }).await;
    execution.abort();
    app.lose_workers(run_id).await;
    app.work().await;
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
