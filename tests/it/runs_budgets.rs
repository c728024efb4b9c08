//! What a run may spend, and what it is charged with: held before each call of a model, settled by what the call came to.

use baton_core::config::{Config, Model};
use baton_core::fault::Faults;
use reqwest::StatusCode;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Follower, TestApp, agents_folder, eventually, id};

/// A dollar for a million tokens of input, two for a million of output.
fn priced(model: &str) -> Model {
    let settings =
        json!({"provider": "scripted", "model": model, "prices": {"input": "1", "cached_input": "0.5", "output": "2"}});
    serde_json::from_value(settings).unwrap()
}

fn with_prices(config: &mut Config) {
    config.agents.folder = Some(agents_folder().join("priced"));
    config.models.insert("priced".into(), priced("one"));
}

async fn submit(app: &TestApp, text: &str, limits: Value) -> Uuid {
    let session_id = app.http.create_session("priced").await;
    let body = json!({"content": [{"type": "text", "text": text}], "limits": limits});
    let (status, run) = app.http.post(&format!("/v1/sessions/{session_id}/messages"), &body).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{run}");
    id(&run["run_id"])
}

/// What the log says of a type, in order.
async fn told(app: &TestApp, run_id: Uuid, event_type: &str) -> Vec<Value> {
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    let frames = follower.frames.iter().filter(|frame| frame.id.is_some() && frame.event() == event_type);
    frames.map(|frame| frame.data.clone().unwrap()).collect()
}

/// Tokens of input that were held for each call.
async fn held(app: &TestApp, run_id: Uuid) -> Vec<i64> {
    told(app, run_id, "model.request.started").await.iter().map(|event| event["held"]["input_tokens"].as_i64().unwrap()).collect()
}

async fn calls(app: &TestApp, run_id: Uuid) -> Vec<(i32, i64, i64, Option<String>, String, bool)> {
    sqlx::query_as(
        "SELECT attempt, input_tokens, output_tokens, trim_scale(cost_usd)::text, cost_source, finished_at IS NOT NULL
         FROM model_calls WHERE run_id = $1 ORDER BY step, attempt",
    )
    .bind(run_id)
    .fetch_all(&app.pool)
    .await
    .unwrap()
}

/// Ends as expected, for good: a run that has spent its budget is never queued again.
async fn check(app: &TestApp, text: &str, limits: Value, expected: &str) -> Uuid {
    let run_id = submit(app, text, limits.clone()).await;
    app.work().await;
    let run = app.http.run(run_id).await;
    let ended = run["failure"]["reason"].as_str().or(run["status"].as_str()).unwrap();
    assert_eq!(ended, expected, "{text} {limits}");
    assert!(told(app, run_id, "run.requeued").await.is_empty(), "{text} {limits}");
    run_id
}

#[tokio::test]
async fn gate_c3_each_budget_stops_a_run_at_its_boundary() {
    let app = TestApp::start_with(with_prices).await;
    let unlimited = submit(&app, "spend it all", json!({})).await;
    app.work().await;
    let usage = app.http.run(unlimited).await["usage"].clone();
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(2_000), &json!(1_000)));
    assert_eq!(usage["cost_usd"], "0.004");
    // Before the second step the first is spent: 1,000 and 500 tokens, 0.002 dollars.
    let sent = held(&app, unlimited).await[1];
    check(&app, "spend it all", json!({"max_input_tokens": 1_000 + sent}), "COMPLETED").await;
    check(&app, "spend it all", json!({"max_input_tokens": 1_000 + sent - 1}), "budget_exceeded").await;
    check(&app, "spend it all", json!({"max_output_tokens": 500 + 256}), "COMPLETED").await;
    check(&app, "spend it all", json!({"max_output_tokens": 500 + 255}), "budget_exceeded").await;
    let paid = Decimal::new(2, 3) + Decimal::new(sent + 2 * 256, 6);
    check(&app, "spend it all", json!({"max_cost_usd": paid.to_string()}), "COMPLETED").await;
    let less = paid - Decimal::new(1, 10);
    check(&app, "spend it all", json!({"max_cost_usd": less.to_string()}), "budget_exceeded").await;
    check(&app, "spend it all", json!({"max_model_calls": 2}), "COMPLETED").await;
    check(&app, "spend it all", json!({"max_model_calls": 1}), "budget_exceeded").await;
    // A provider may count more than was held: no call of that turn is made any more.
    let over = check(&app, "spend it all", json!({"max_output_tokens": 499}), "budget_exceeded").await;
    assert!(told(&app, over, "tool.call.started").await.is_empty());
    app.finish().await;
}

#[tokio::test]
async fn gate_c3_failed_attempts_are_charged() {
    let app = TestApp::start_with(with_prices).await;
    let run_id = submit(&app, "fail once", json!({})).await;
    app.work().await;
    let sent = held(&app, run_id).await[0];
    let heard = 16_i64.div_euclid(3) + 1; // half of the text, of which no provider has counted the tokens
    let estimated = Decimal::new(sent + 2 * heard, 6).normalize().to_string();
    let reported = Some("0.002".to_owned());
    assert_eq!(
        calls(&app, run_id).await,
        [(1, sent, heard, Some(estimated), "estimated".into(), true), (2, 1_000, 500, reported, "reported".into(), true)]
    );
    let usage = app.http.run(run_id).await["usage"].clone();
    assert_eq!((usage["input_tokens"].as_i64(), usage["model_calls"].as_i64()), (Some(1_000 + sent), Some(2)));
    check(&app, "fail once", json!({"max_input_tokens": 2 * sent}), "COMPLETED").await;
    check(&app, "fail once", json!({"max_input_tokens": 2 * sent - 1}), "budget_exceeded").await;
    app.finish().await;
}

#[tokio::test]
async fn gate_c3_a_call_that_a_crash_cut_off_is_charged_at_what_was_held() {
    let app = TestApp::start_with(with_prices).await;
    let run_id = submit(&app, "noop", json!({})).await;
    app.lose_worker_at_answer(run_id, 1).await;
    app.work().await;
    let sent = held(&app, run_id).await[0];
    let most = Decimal::new(sent + 2 * 4_096, 6).normalize().to_string();
    // Cached input is cheaper: 600 at a dollar, 400 at half, 500 at two.
    let reported = Some("0.0018".to_owned());
    assert_eq!(
        calls(&app, run_id).await,
        [(1, sent, 4_096, Some(most.clone()), "held".into(), false), (2, 1_000, 500, reported, "reported".into(), true)]
    );
    let run = app.http.run(run_id).await;
    assert_eq!(run["usage"]["output_tokens"], 4_596);
    let both: Decimal = most.parse::<Decimal>().unwrap() + Decimal::new(18, 4);
    assert_eq!(run["usage"]["cost_usd"], both.normalize().to_string());
    app.finish().await;
}

#[tokio::test]
async fn case_f22_a_cancelled_call_is_charged_with_what_is_known_of_it() {
    let app = TestApp::start_with(with_prices).await;
    let run_id = submit(&app, "wait", json!({})).await;
    let worker = app.worker.clone();
    let execution = tokio::spawn(async move { worker.tick().await.unwrap() });
    eventually("the model is asked", || async {
        let steps: i32 =
            sqlx::query_scalar("SELECT step_count FROM runs WHERE id = $1").bind(run_id).fetch_one(&app.pool).await.unwrap();
        (steps == 1).then_some(())
    })
    .await;
    assert_eq!(app.http.run(run_id).await["usage"]["output_tokens"], 4_096, "held while it is under way");
    app.http.ask(&format!("/v1/runs/{run_id}/cancel")).await;
    app.worker.renew().await.unwrap();
    execution.await.unwrap();
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["usage"]["output_tokens"]), (&json!("CANCELLED"), &json!(0)));
    let [(_, _, 0, _, source, true)] = &calls(&app, run_id).await[..] else { panic!("one call, settled") };
    assert_eq!(source, "estimated");
    assert_eq!(told(&app, run_id, "model.response.failed").await[0]["code"], "interrupted");
    app.finish().await;
}

#[tokio::test]
async fn a_limit_of_cost_needs_a_price() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let body = json!({"content": [{"type": "text", "text": "noop"}], "limits": {"max_cost_usd": "1"}});
    let (status, refused) = app.http.post(&format!("/v1/sessions/{session_id}/messages"), &body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(refused["error"]["details"]["errors"][0]["path"], "/limits/max_cost_usd", "{refused}");
    let nobodys = app.clock.new_id();
    let (status, _) = app.http.post(&format!("/v1/sessions/{nobodys}/messages"), &body).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    app.finish().await;
}

#[tokio::test]
async fn gate_c3_a_price_that_has_gone_stops_a_run_with_a_limit_of_cost() {
    let app = TestApp::start_with(with_prices).await;
    let run_id = submit(&app, "noop", json!({"max_cost_usd": "1"})).await;
    let unpriced = |config: &mut Config| config.models.get_mut("priced").unwrap().prices = None;
    app.another_worker_with(Faults::default(), &[], unpriced).await.tick().await.unwrap();
    assert_eq!(failure(&app, run_id).await, ("budget_exceeded".into(), Some("unpriced".into())));
    app.finish().await;
}

/// The reason of a failed run, and what operators may know of it.
async fn failure(app: &TestApp, run_id: Uuid) -> (String, Option<String>) {
    sqlx::query_as("SELECT failure_reason, failure_class FROM runs WHERE id = $1 AND status = 'FAILED'")
        .bind(run_id)
        .fetch_one(&app.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn gate_d5_a_resumed_run_keeps_its_provider_and_model() {
    let app = TestApp::start_with(with_prices).await;
    let change = |config: &mut Config| {
        config.models.insert("priced".into(), priced("two"));
    };
    let kept = submit(&app, "spend it all", json!({})).await;
    app.lose_worker_at_answer(kept, 2).await;
    let keeps = |config: &mut Config| {
        change(config);
        config.models.insert("before".into(), priced("one"));
    };
    app.another_worker_with(Faults::default(), &[], keeps).await.tick().await.unwrap();
    assert_eq!(app.http.run(kept).await["status"], "COMPLETED");
    let models: Vec<String> =
        sqlx::query_scalar("SELECT model FROM model_calls WHERE run_id = $1").bind(kept).fetch_all(&app.pool).await.unwrap();
    assert_eq!(models, ["one", "one", "one"]);

    let lost = submit(&app, "spend it all", json!({})).await;
    app.lose_worker_at_answer(lost, 2).await;
    app.another_worker_with(Faults::default(), &[], change).await.tick().await.unwrap();
    assert_eq!(failure(&app, lost).await, ("model_permanent_error".into(), Some("provider_changed".into())));
    app.finish().await;
}

/// However a run ends, by a worker or without one; the audit looks.
#[tokio::test]
async fn gate_d5_what_a_provider_needs_back_ends_with_its_run() {
    let app = TestApp::start_with(with_prices).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run_id = submit(&app, "spend it all", json!({})).await;
        sqlx::query("INSERT INTO provider_continuations (run_id, step, bytes) VALUES ($1, 1, '\\x0102')")
            .bind(run_id)
            .execute(&app.pool)
            .await
            .unwrap();
        runs.push(run_id);
    }
    let kept = baton_core::models::continuations(&app.pool, runs[0]).await.unwrap();
    assert_eq!(kept.into_iter().map(|(step, bytes)| (step, bytes.to_vec())).collect::<Vec<_>>(), [(1, vec![1, 2])]);
    app.http.ask(&format!("/v1/runs/{}/cancel", runs[0])).await;
    sqlx::query("UPDATE runs SET deadline_at = now() - interval '1 second' WHERE id = $1")
        .bind(runs[1])
        .execute(&app.pool)
        .await
        .unwrap();
    app.worker.sweep().await.unwrap();
    sqlx::query("DELETE FROM provider_continuations WHERE run_id = $1").bind(runs[2]).execute(&app.pool).await.unwrap();
    app.lose_worker_at_answer(runs[2], 2).await;
    sqlx::query("INSERT INTO provider_continuations (run_id, step, bytes) VALUES ($1, 1, '\\x0102')")
        .bind(runs[2])
        .execute(&app.pool)
        .await
        .unwrap();
    app.work().await;
    for (run_id, status) in runs.iter().zip(["CANCELLED", "FAILED", "COMPLETED"]) {
        assert_eq!(app.http.run(*run_id).await["status"], status);
    }
    app.finish().await;
}

#[tokio::test]
async fn case_f6_a_model_that_is_cut_off_again_and_again_is_stopped() {
    let app = TestApp::start_with(with_prices).await;
    let run_id = submit(&app, "cut off for ever", json!({})).await;
    app.work().await;
    assert_eq!(failure(&app, run_id).await, ("budget_exceeded".into(), Some("output_truncated".into())));
    assert!(told(&app, run_id, "tool.call.started").await.is_empty(), "no call of such a turn is made");
    app.finish().await;
}

#[tokio::test]
async fn case_f21_what_a_filter_cut_is_flagged_and_not_asked_for_again() {
    let app = TestApp::start_with(with_prices).await;
    let run_id = submit(&app, "filtered", json!({})).await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    assert_eq!(told(&app, run_id, "assistant.message.completed").await[0]["truncated"], true);
    assert_eq!(calls(&app, run_id).await.len(), 1);
    app.finish().await;
}
