//! Runs that are taken up again in the middle of a turn, for whatever reason: nothing is proposed or done twice, and the model
//! is not asked again for what it has answered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_core::config::Config;
use baton_core::fault::{Action, Faults, Point};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{Gates, TestApp, bodies_of, calls_of, events_of, eventually, test_tools};

async fn start(gates: &Gates) -> TestApp {
    TestApp::start_with_tools(|effects| test_tools(effects, gates), |_| {}).await
}

/// The run has completed; every call was proposed once, every step was asked for once, and every answer is there once.
async fn once(app: &TestApp, run_id: Uuid, calls: &[&str]) {
    let run = app.http.run(run_id).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(calls_of(&app.pool, run_id).await, calls.iter().map(|call| format!("{call} COMPLETED")).collect::<Vec<_>>());
    let proposed = bodies_of(&app.pool, run_id, "tool.call.proposed").await;
    let ids: BTreeSet<&str> = proposed.iter().map(|body| body["call_id"].as_str().unwrap()).collect();
    assert_eq!((proposed.len(), ids.len()), (calls.len(), calls.len()), "{proposed:?}");
    for event in ["tool.call.authorized", "tool.call.started", "tool.call.completed"] {
        assert_eq!(bodies_of(&app.pool, run_id, event).await.len(), calls.len(), "{event}");
    }
    let asked = bodies_of(&app.pool, run_id, "model.request.started").await;
    let steps: Vec<&Value> = asked.iter().map(|body| &body["step"]).collect();
    assert_eq!(steps, [&json!(1), &json!(2)], "one turn with calls, one with the answer");
    assert_eq!(run["usage"]["tool_calls"], calls.len());
}

fn tags(effects: &[String]) -> Vec<Value> {
    let effects = effects.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    effects.map(|effect| if effect["tag"].is_string() { effect["tag"].clone() } else { effect["content"].clone() }).collect()
}

#[tokio::test]
async fn gate_c5_case_d17_after_an_approval_everything_of_the_turn_happens_once() {
    let app = start(&Gates::new()).await;
    let run_id = app.http.start_run_of("trusted", "gate the second").await;
    app.work().await;
    app.http.run_in(run_id, "WAITING_FOR_APPROVAL").await;
    assert!(app.effects().is_empty(), "no call of the turn is made before every one is decided");
    app.http.resolve_all(run_id, "approve_once").await;
    app.work().await;
    once(&app, run_id, &["test.idempotent", "demo.external_write", "test.idempotent"]).await;
    assert_eq!(tags(&app.effects()), ["a", "b", "c"]);
    app.finish().await;
}

#[tokio::test]
async fn gate_c5_case_d17_after_a_death_between_approval_and_effect_everything_happens_once() {
    for point in [Point::AfterClaim, Point::AfterFold, Point::PolicyDecided, Point::IntentRecorded, Point::BeforeTool] {
        let app = start(&Gates::new()).await;
        let run_id = app.http.start_run_of("trusted", "gate the second").await;
        app.work().await;
        app.http.resolve_all(run_id, "approve_once").await;
        let faults = Faults::default();
        faults.arm(point, Action::Pause(Arc::new(Semaphore::new(0))), 1);
        let doomed = app.another_worker(faults.clone()).await;
        let execution = tokio::spawn(async move { doomed.tick().await.unwrap() });
        eventually(&format!("it dies at {point:?}"), || async { (!faults.is_armed(point)).then_some(()) }).await;
        execution.abort();
        app.lose_workers(run_id).await;
        app.work().await;
        once(&app, run_id, &["test.idempotent", "demo.external_write", "test.idempotent"]).await;
        assert_eq!(tags(&app.effects()), ["a", "b", "c"], "{point:?}");
        app.finish().await;
    }
}

#[tokio::test]
async fn gate_c5_after_an_answer_the_question_is_not_asked_again() {
    let app = start(&Gates::new()).await;
    let run_id = app.http.start_run("ask").await;
    app.work().await;
    app.http.run_in(run_id, "WAITING_FOR_USER").await;
    app.http.input(run_id, "blue").await;
    // The answer is delivered by a second process, after the first one that took it up has died.
    let faults = Faults::default();
    faults.arm(Point::ResultValidated, Action::Pause(Arc::new(Semaphore::new(0))), 1);
    let doomed = app.another_worker(faults.clone()).await;
    let execution = tokio::spawn(async move { doomed.tick().await.unwrap() });
    eventually("it dies", || async { (!faults.is_armed(Point::ResultValidated)).then_some(()) }).await;
    execution.abort();
    app.lose_workers(run_id).await;
    app.work().await;
    once(&app, run_id, &["conversation.ask_user"]).await;
    assert_eq!(bodies_of(&app.pool, run_id, "run.waiting_for_user").await.len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn gate_c5_after_a_hand_back_in_the_middle_of_a_call_it_goes_on_with_that_call() {
    let gates = Gates::new();
    let app = start(&gates).await;
    let tools = test_tools(&app.effects_file(), &gates);
    let hurry = |config: &mut Config| config.worker.drain = Duration::from_millis(50);
    let leaving = app.another_worker_with(Faults::default(), &tools, hurry).await;
    let told_to_stop = CancellationToken::new();
    let run_id = app.http.start_run_of("trusted", "slow batch").await;
    let execution = tokio::spawn(leaving.run(told_to_stop.clone()));
    let started = || async { (!bodies_of(&app.pool, run_id, "tool.call.started").await.is_empty()).then_some(()) };
    eventually("the call is under way", started).await;
    told_to_stop.cancel();
    execution.await.unwrap().unwrap();
    assert_eq!(bodies_of(&app.pool, run_id, "run.requeued").await, [json!({"cause": "handed_back"})]);

    gates.before_mark.add_permits(1);
    gates.after_mark.add_permits(1);
    app.work().await;
    once(&app, run_id, &["test.slow", "test.write", "test.read"]).await;
    assert_eq!(app.effects().len(), 3);
    let events = events_of(&app.pool, run_id).await;
    assert!(events.contains(&"run.resumed".to_owned()), "{events:?}");
    app.finish().await;
}
