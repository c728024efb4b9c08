//! Runs that are stopped while they have calls: before the effect at once, after it with the effect on record.

use std::sync::Arc;

use baton_core::fault::{Action, Faults, Point};
use baton_worker::Worker;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support::{Gates, TestApp, bodies_of, calls_of, events_of, eventually, id, test_tools};

/// What stops a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Cancel,
    Deadline,
}

/// A run of `slow batch`, and whoever executes it.
struct Slow {
    app: TestApp,
    gates: Gates,
    run_id: Uuid,
    execution: JoinHandle<usize>,
    stop: Stop,
}

impl Slow {
    /// Up to the fault point, if any, where it waits for a permit of the gate before the mark.
    async fn start(stop: Stop, pause: Option<Point>) -> Self {
        let gates = Gates::new();
        let app = TestApp::start_with_tools(|effects| test_tools(effects, &gates), |_| {}).await;
        if let Some(point) = pause {
            app.faults.arm(point, Action::Pause(Arc::clone(&gates.before_mark)), 1);
        }
        let run_id = stop.submit(&app, "slow batch").await;
        let execution = execute(&app.worker);
        match pause {
            Some(point) => eventually("the point", || async { (!app.faults.is_armed(point)).then_some(()) }).await,
            None => {
                let started = || async { (!bodies_of(&app.pool, run_id, "tool.call.started").await.is_empty()).then_some(()) };
                eventually("the call has started", started).await;
            }
        }
        Self { app, gates, run_id, execution, stop }
    }

    /// The execution has been told.
    async fn stop(&self) {
        self.stop.ask(&self.app, self.run_id).await;
        self.app.worker.renew().await.unwrap(); // the heartbeat brings a request
    }

    /// The run has been stopped with these calls and effects, the model was asked once, and the session goes on.
    async fn ended(self, calls: [&str; 3], last: &[&str], effects: usize) {
        self.execution.await.unwrap();
        self.stop.has_ended(&self.app, self.run_id, calls, last, effects).await;
        self.app.finish().await;
    }
}

impl Stop {
    async fn submit(self, app: &TestApp, text: &str) -> Uuid {
        let session_id = app.http.create_session("trusted").await;
        let seconds = if self == Self::Deadline { 1 } else { 600 };
        let body = json!({"content": [{"type": "text", "text": text}], "limits": {"deadline_seconds": seconds}});
        let (status, run) = app.http.post(&format!("/v1/sessions/{session_id}/messages"), &body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{run}");
        id(&run["run_id"])
    }

    async fn ask(self, app: &TestApp, run_id: Uuid) {
        match self {
            Self::Cancel => assert_eq!(app.http.cancel(run_id).await.0, StatusCode::ACCEPTED),
            Self::Deadline => {
                // The execution's own timer is set for the same moment; the rest is for a busy machine.
                let query = "SELECT now() > deadline_at + interval '300 ms' FROM runs WHERE id = $1";
                eventually("the deadline has passed", || async {
                    let passed: bool = sqlx::query_scalar(query).bind(run_id).fetch_one(&app.pool).await.unwrap();
                    passed.then_some(())
                })
                .await;
            }
        }
    }

    async fn has_ended(self, app: &TestApp, run_id: Uuid, calls: [&str; 3], last: &[&str], effects: usize) {
        let run = app.http.run(run_id).await;
        let (status, event, reason) = match self {
            Self::Cancel => ("CANCELLED", "run.cancelled", Value::Null),
            Self::Deadline => ("FAILED", "run.failed", json!("deadline_exceeded")),
        };
        assert_eq!((&run["status"], &run["failure"]["reason"]), (&json!(status), &reason), "{run}");
        assert_eq!(calls_of(&app.pool, run_id).await, calls);
        let mut events = events_of(&app.pool, run_id).await;
        events.retain(|event| event != "run.cancel_requested");
        assert_eq!(events.split_off(events.len() - last.len() - 1), [last, &[event]].concat());
        assert_eq!(run["usage"]["model_calls"], 1);
        assert_eq!(app.effects().len(), effects);
        goes_on(app, &run).await;
    }
}

fn execute(worker: &Worker) -> JoinHandle<usize> {
    let worker = worker.clone();
    tokio::spawn(async move { worker.tick().await.unwrap() })
}

/// The run's session takes another message.
async fn goes_on(app: &TestApp, run: &Value) {
    let next = app.http.submit(id(&run["session_id"]), "noop").await;
    app.work().await;
    assert_eq!(app.http.run(next).await["status"], "COMPLETED");
}

const NOTHING_DONE: [&str; 3] = ["test.slow CANCELLED", "test.write CANCELLED", "test.read CANCELLED"];

#[tokio::test]
async fn gate_c4_before_the_first_call_nothing_of_the_batch_is_begun() {
    let slow = Slow::start(Stop::Cancel, Some(Point::IntentRecorded)).await;
    slow.stop().await;
    slow.gates.before_mark.add_permits(1);
    slow.ended(NOTHING_DONE, &["tool.call.authorized"], 0).await;
}

#[tokio::test]
async fn gate_c4_before_the_mark_the_call_stops_at_once() {
    for stop in [Stop::Cancel, Stop::Deadline] {
        let slow = Slow::start(stop, None).await;
        slow.stop().await; // the tool waits still
        slow.ended(NOTHING_DONE, &["tool.call.started", "tool.call.failed"], 0).await;
    }
}

#[tokio::test]
async fn gate_c4_after_the_mark_the_call_ends_and_is_recorded_and_the_rest_is_not_made() {
    for stop in [Stop::Cancel, Stop::Deadline] {
        let slow = Slow::start(stop, None).await;
        slow.gates.before_mark.add_permits(1);
        eventually("the effect is out", || async { (slow.app.effects().len() == 1).then_some(()) }).await;
        slow.stop().await;
        assert_eq!(slow.app.http.run(slow.run_id).await["status"], "RUNNING", "until its effect is on record");
        assert!(!slow.execution.is_finished());
        slow.gates.after_mark.add_permits(1);
        let calls = ["test.slow COMPLETED", "test.write CANCELLED", "test.read CANCELLED"];
        slow.ended(calls, &["tool.call.started", "tool.call.completed"], 1).await;
    }
}

#[tokio::test]
async fn gate_c4_an_effect_of_a_lost_worker_is_uncertain_before_the_run_is_stopped() {
    let app = TestApp::start_with_tools(|effects| test_tools(effects, &Gates::new()), |_| {}).await;
    for (stop, effects) in [(Stop::Cancel, 2), (Stop::Deadline, 4)] {
        let faults = Faults::default();
        faults.arm(Point::EffectSent, Action::Pause(Arc::new(Semaphore::new(0))), 1);
        let doomed = app.another_worker(faults.clone()).await;
        let run_id = stop.submit(&app, "in order").await;
        let execution = execute(&doomed);
        eventually("the effect is out", || async { (!faults.is_armed(Point::EffectSent)).then_some(()) }).await;
        execution.abort(); // the process is gone, and never hears of it
        stop.ask(&app, run_id).await;
        app.lose_workers(run_id).await;
        app.work().await;
        let calls = ["test.read COMPLETED", "test.write UNCERTAIN", "test.read CANCELLED"];
        stop.has_ended(&app, run_id, calls, &["run.claimed", "run.resumed", "tool.call.uncertain"], effects).await;
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_c4_case_d20_a_waiting_run_is_cancelled_with_what_it_has_asked() {
    let app = TestApp::start().await;
    for (text, status, calls) in [
        (
            "publish twice",
            "WAITING_FOR_APPROVAL",
            &["demo.external_write CANCELLED", "math.calculate CANCELLED", "demo.external_write CANCELLED"][..],
        ),
        ("ask", "WAITING_FOR_USER", &["conversation.ask_user CANCELLED"]),
    ] {
        let run_id = app.http.start_run(text).await;
        app.work().await;
        app.http.run_in(run_id, status).await;
        let (status, run) = app.http.cancel(run_id).await;
        assert_eq!((status, &run["status"]), (StatusCode::OK, &json!("CANCELLED")));
        assert_eq!(calls_of(&app.pool, run_id).await, calls);
        assert_eq!(app.http.input(run_id, "too late").await.0, StatusCode::CONFLICT);
        goes_on(&app, &run).await;
    }
    let asked: Vec<String> = sqlx::query_scalar("SELECT status FROM approvals UNION ALL SELECT status FROM questions")
        .fetch_all(&app.pool)
        .await
        .unwrap();
    assert_eq!(asked, ["CANCELLED"; 3]);
    for approval in app.http.get("/v1/approvals").await.1["items"].as_array().unwrap() {
        assert_eq!(app.http.resolve(approval, "approve_once").await.0, StatusCode::CONFLICT);
    }
    assert!(app.effects().is_empty());
    app.finish().await;
}

#[tokio::test]
async fn gate_c4_a_run_that_is_about_to_wait_is_cancelled_and_asks_nothing() {
    let app = TestApp::start().await;
    for text in ["publish twice", "ask"] {
        let until = Arc::new(Semaphore::new(0));
        app.faults.arm(Point::BeforeSuspend, Action::Pause(Arc::clone(&until)), 1);
        let run_id = app.http.start_run(text).await;
        let execution = execute(&app.worker);
        eventually("it is about to wait", || async { (!app.faults.is_armed(Point::BeforeSuspend)).then_some(()) }).await;
        assert_eq!(app.http.cancel(run_id).await.0, StatusCode::ACCEPTED);
        until.add_permits(1); // the worker has not heard of it: the statement finds it
        execution.await.unwrap();
        let run = app.http.run(run_id).await;
        assert_eq!(run["status"], "CANCELLED", "{text}: {run}");
        assert!(run["cancel"]["observed_at"].is_string(), "{text}: {run}");
        goes_on(&app, &run).await;
    }
    let asked: i64 = sqlx::query_scalar("SELECT (SELECT count(*) FROM approvals) + (SELECT count(*) FROM questions)")
        .fetch_one(&app.pool)
        .await
        .unwrap();
    assert_eq!(asked, 0);
    app.finish().await;
}
