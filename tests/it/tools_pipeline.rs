//! The one way to call a tool: the same steps for every kind, together only where nothing is written, and never because a
//! text says so.

use baton_core::fault::Point;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Gates, LETTER, TestApp, bodies_of, calls_of, events_of, test_tools};

/// The fourteen steps.
const PIPELINE: [Point; 14] = [
    Point::ToolResolved,
    Point::ToolEnabled,
    Point::ScopesChecked,
    Point::ArgumentsValidated,
    Point::ArgumentsHashed,
    Point::PolicyDecided,
    Point::ApprovalChecked,
    Point::IntentRecorded,
    Point::BeforeTool,
    Point::AfterTool,
    Point::ResultValidated,
    Point::ResultFitted,
    Point::ResultRecorded,
    Point::ResultRendered,
];

async fn start(gates: &Gates) -> TestApp {
    TestApp::start_with_tools(|effects| test_tools(effects, gates), |_| {}).await
}

/// The steps that a run of one call comes by, the user's answer included.
async fn steps(app: &TestApp, agent: &str, text: &str) -> Vec<Point> {
    app.faults.take_passed();
    let run_id = app.http.start_run_of(agent, text).await;
    app.work().await;
    if app.http.run(run_id).await["status"] == "WAITING_FOR_USER" {
        app.http.input(run_id, "blue").await;
        app.work().await;
    }
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    app.faults.take_passed().into_iter().filter(|point| PIPELINE.contains(point)).collect()
}

#[tokio::test]
async fn gate_c13_control_tools_and_all_others_pass_the_same_steps_in_the_same_order() {
    let app = start(&Gates::new()).await;
    for (agent, text) in [
        ("test", "ask"),
        ("test", "write a file"),
        ("trusted", "call test.read"),
        ("trusted", "call test.idempotent"),
        ("trusted", "call test.conditional"),
        ("trusted", "call test.write"),
        ("trusted", "long"),
    ] {
        assert_eq!(steps(&app, agent, text).await, PIPELINE, "{text}");
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_c11_a_text_that_asks_for_an_action_leads_to_a_request_and_to_nothing_else() {
    let app = start(&Gates::new()).await;
    // From a tool that read it somewhere, and from whoever writes to the agent.
    for text in ["read the letter", LETTER] {
        for (decision, effects) in [("deny", 0), ("approve_once", 1)] {
            let before = app.effects().len();
            let run_id = app.http.start_run_of("trusted", text).await;
            app.work().await;
            let approvals = app.http.open_approvals(run_id).await;
            assert_eq!(approvals.len(), 1);
            assert_eq!(
                (&approvals[0]["tool_name"], &approvals[0]["arguments"]),
                (&json!("demo.external_write"), &json!({"content": "pwned"}))
            );
            let asked = bodies_of(&app.pool, run_id, "approval.requested").await;
            assert_eq!(asked.len(), 1);
            assert_eq!(app.effects().len(), before, "nothing before a person has decided");
            assert_eq!(outcomes_of(&app, run_id, "demo.external_write").await, ["WAITING"]);

            app.http.resolve(&approvals[0], decision).await;
            app.work().await;
            assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
            assert_eq!(app.effects().len(), before + effects, "{decision}");
        }
    }
    let results = bodies_of_all(&app, "tool.call.completed").await;
    assert!(results.iter().any(|body| body["result"] == LETTER), "the model did see the text: {results:?}");
    app.finish().await;
}

async fn outcomes_of(app: &TestApp, run_id: Uuid, tool: &str) -> Vec<String> {
    let calls = calls_of(&app.pool, run_id).await;
    calls.iter().filter_map(|call| call.strip_prefix(tool)).map(|status| status.trim().to_owned()).collect()
}

async fn bodies_of_all(app: &TestApp, event_type: &str) -> Vec<Value> {
    let query = sqlx::query_scalar("SELECT body FROM events WHERE type = $1").bind(event_type);
    let bodies: Vec<String> = query.fetch_all(&app.pool).await.unwrap();
    bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

/// The calls of a run from start to end, by their place in the turn.
async fn course(app: &TestApp, run_id: Uuid) -> Vec<String> {
    let query = sqlx::query_as(
        "SELECT type, body FROM events WHERE run_id = $1 AND type IN ('tool.call.started', 'tool.call.completed') ORDER BY sequence",
    );
    let events: Vec<(String, String)> = query.bind(run_id).fetch_all(&app.pool).await.unwrap();
    let course = events.iter().map(|(event_type, body)| {
        let body: Value = serde_json::from_str(body).unwrap();
        let place = body["call_id"].as_str().unwrap().rsplit('_').next().unwrap().to_owned();
        format!("{} {place}", event_type.rsplit('.').next().unwrap())
    });
    course.collect()
}

#[tokio::test]
async fn calls_that_only_read_run_together() {
    // Each waits for the two others: one after the other they would wait for ever.
    let app = start(&Gates::with_readers(3)).await;
    let run_id = app.http.start_run_of("trusted", "read together").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    let expected = ["started 0", "started 1", "started 2", "completed 0", "completed 1", "completed 2"];
    assert_eq!(course(&app, run_id).await, expected);
    app.finish().await;
}

#[tokio::test]
async fn a_turn_with_a_call_that_writes_runs_in_order() {
    let app = start(&Gates::new()).await;
    let run_id = app.http.start_run_of("trusted", "in order").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    let expected = ["started 0", "completed 0", "started 1", "completed 1", "started 2", "completed 2"];
    assert_eq!(course(&app, run_id).await, expected);
    let tags: Vec<Value> = app.effects().iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["tag"].clone()).collect();
    assert_eq!(tags, ["a", "b", "c"]);
    assert!(events_of(&app.pool, run_id).await.ends_with(&["run.completed".to_owned()]));
    app.finish().await;
}
