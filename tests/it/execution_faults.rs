//! An error at every fault point in turn: no state without its event and no event without its state, at any moment; and the
//! run ends, or goes on, as the place of the error says.

use std::collections::BTreeSet;

use baton_core::fault::{Action, Point};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Everything, OF_THE_API, TestApp, audit, calls_of, eventually, message};

/// After an error here the run goes on: what was to be done is on record, or nobody needs it, or it is only one call's.
const GOES_ON: [Point; 8] = [
    Point::AfterClaim,
    Point::AfterFold,
    Point::AfterAppend,
    Point::EffectMarked,
    Point::EffectSent,
    Point::BeforeFinish,
    Point::AfterSuspend,
    Point::BeforeRenew,
];

#[tokio::test]
async fn gate_b2_an_error_at_any_point_leaves_state_and_events_as_one() {
    let passed = Everything::run().await.passed;
    let app = TestApp::start().await;
    for point in Point::ALL {
        // When a worker renews is the test's to say, and it does so more often here.
        let times = passed.iter().filter(|passed| *passed == point).count();
        let last = if *point == Point::BeforeRenew { 1 } else { u32::try_from(times).unwrap() };
        assert!(last > 0, "the run does not come by {point:?}");
        for nth in BTreeSet::from([1, last]) {
            check(&app, *point, nth).await;
        }
    }
    app.finish().await;
}

async fn check(app: &TestApp, point: Point, nth: u32) {
    let what = format!("an error at {point:?}, time {nth}");
    app.faults.take_passed();
    let before = app.effects().len();
    app.faults.arm(point, Action::Fail, nth);
    let session_id = app.http.create_session("test").await;
    app.http.post(&format!("/v1/sessions/{session_id}/messages"), &message("everything")).await;
    let run = drive(app, session_id).await;
    assert!(!app.faults.is_armed(point), "{what} was never met");

    let goes_on = GOES_ON.contains(&point) || OF_THE_API.contains(&point);
    let expected = if goes_on { (json!("COMPLETED"), Value::Null) } else { (json!("FAILED"), json!("internal_error")) };
    assert_eq!((run["status"].clone(), run["failure"]["reason"].clone()), expected, "{what}: {run}");

    let calls = calls_of(&app.pool, run["id"].as_str().unwrap().parse().unwrap()).await;
    let write = calls.iter().rfind(|call| call.starts_with("demo.external_write"));
    let write = write.map(|call| call.split_once(' ').unwrap().1);
    match app.effects().len() - before {
        0 => assert!(write != Some("COMPLETED"), "{what}: on record, and never done: {calls:?}"),
        1 => assert!(matches!(write, Some("COMPLETED" | "UNCERTAIN")), "{what}: done, and not on record: {calls:?}"),
        effects => panic!("{what}: {effects} effects: {calls:?}"),
    }
}

/// Worker and person go on until the run has ended, whatever they are answered; the audit looks at every stop.
async fn drive(app: &TestApp, session_id: Uuid) -> Value {
    let run_id: Uuid =
        sqlx::query_scalar("SELECT id FROM runs WHERE session_id = $1").bind(session_id).fetch_one(&app.pool).await.unwrap();
    eventually("the run has ended", || async {
        let _ = app.worker.renew().await; // finds a run that nobody executes, and hands it back
        audit(&app.pool).await;
        // One whose log could not be read waits for half a minute.
        let due = "UPDATE runs SET scheduled_for = now() WHERE scheduled_for > now()";
        sqlx::query(due).execute(&app.pool).await.unwrap();
        app.worker.sweep().await.unwrap();
        let _ = app.worker.tick().await;
        audit(&app.pool).await;
        let run = app.http.run(run_id).await;
        match run["status"].as_str().unwrap() {
            "WAITING_FOR_APPROVAL" => {
                for approval in app.http.open_approvals(run_id).await {
                    app.http.resolve(&approval, "approve_once").await;
                }
            }
            "WAITING_FOR_USER" => {
                app.http.input(run_id, "yes").await;
            }
            _ if run["finished_at"].is_string() => return Some(run),
            _ => {}
        }
        audit(&app.pool).await;
        None
    })
    .await
}
