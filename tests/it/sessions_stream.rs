//! The stream of a whole session: its own events and those of all its runs, to its close.

use baton_core::Scope;
use baton_core::config::Notifications;
use futures::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use crate::events_wire::{Intruder, Wire, Working, follow_any_with_cuts, follow_with_cuts};
use crate::support::{Caller, Follower, Frame, Http, RealApp, TestApp, Watched, eventually};

/// Clients at once: enough to be quick on two cores, and to share rings.
const CLIENTS: usize = 8;

async fn head(pool: &PgPool, session_id: Uuid) -> i64 {
    sqlx::query_scalar("SELECT last_sequence FROM sessions WHERE id = $1").bind(session_id).fetch_one(pool).await.unwrap()
}

/// A closed session, and its runs: the second has waited for its user.
async fn closed_session(app: &TestApp) -> (Uuid, Vec<Uuid>) {
    let session_id = app.http.create_session("test").await;
    let mut runs = vec![app.http.submit(session_id, "noop").await];
    app.work().await;
    runs.push(app.http.submit(session_id, "ask").await);
    app.work().await;
    app.http.input(runs[1], "red").await;
    app.work().await;
    app.http.close(session_id).await;
    (session_id, runs)
}

#[tokio::test]
async fn a_session_is_followed_through_its_runs_to_its_close() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let mut wire = Wire::open_of(&app.http, Watched::Session(session_id), None).await;
    wire.until_sequence(1).await;
    let first = app.http.submit(session_id, "talk").await;
    app.work().await;
    wire.until("the end of a run", |frames| frames.iter().any(Frame::is_end)).await;
    let second = app.http.submit(session_id, "noop").await;
    app.work().await;
    wire.until_heartbeats(1).await; // it goes on after the end of a run
    app.http.close(session_id).await;
    wire.until_end().await;

    let head = head(&app.pool, session_id).await;
    assert_eq!(wire.sequences(), (1..=head).collect::<Vec<_>>());
    let frames = wire.frames();
    let stored: Vec<&Frame> = frames.iter().filter(|frame| frame.id.is_some()).collect();
    let run_of = |frame: &Frame| frame.data.as_ref().unwrap()["run_id"].clone();
    assert_eq!((stored[0].event(), run_of(stored[0])), ("session.created", json!(null)));
    let last = stored[stored.len() - 1];
    assert_eq!((last.event(), run_of(last)), ("session.closed", json!(null)));
    for run_id in [first, second] {
        let mut own = Wire::open(&app.http, run_id, None).await;
        own.until_end().await;
        let here: Vec<&Frame> = stored.iter().copied().filter(|frame| run_of(frame) == json!(run_id)).collect();
        let there = own.frames();
        assert_eq!(here, there.iter().filter(|frame| frame.id.is_some()).collect::<Vec<_>>(), "the same frames");
    }
    let text: String = frames
        .iter()
        .filter(|frame| frame.event() == "message.delta" && run_of(frame) == json!(first))
        .map(|frame| frame.data.as_ref().unwrap()["text"].as_str().unwrap().to_owned())
        .collect();
    assert!(text.starts_with("Räksmörgås and"), "deltas of its runs: {text}");
    app.finish().await;
}

#[tokio::test]
async fn case_c13_cursors_of_a_session_and_of_its_runs_are_the_same() {
    let app = TestApp::start().await;
    let (session_id, runs) = closed_session(&app).await;
    let head = head(&app.pool, session_id).await;
    for cursor in 0..head {
        let mut wire = Wire::open_of(&app.http, Watched::Session(session_id), Some(cursor)).await;
        wire.until_end().await;
        assert_eq!(wire.sequences(), (cursor + 1..=head).collect::<Vec<_>>(), "from {cursor}");
        // A cursor of the session, on the stream of a run: what the run has after it.
        for run_id in &runs {
            let mut wire = Wire::open(&app.http, *run_id, Some(cursor)).await;
            wire.until_end().await;
            let expected: Vec<i64> =
                sqlx::query_scalar("SELECT sequence FROM events WHERE run_id = $1 AND sequence > $2 ORDER BY sequence")
                    .bind(run_id)
                    .bind(cursor)
                    .fetch_all(&app.pool)
                    .await
                    .unwrap();
            assert_eq!((wire.status == StatusCode::NO_CONTENT, wire.sequences()), (expected.is_empty(), expected));
        }
    }
    let done = Wire::open_of(&app.http, Watched::Session(session_id), Some(head)).await;
    assert_eq!(done.status, StatusCode::NO_CONTENT, "nothing is missing");
    app.finish().await;
}

#[tokio::test]
async fn gate_a7_a_session_stream_cut_anywhere_is_resumed_without_loss_or_repeat() {
    let app = TestApp::start().await;
    let (session_id, _) = closed_session(&app).await;
    let watched = Watched::Session(session_id);
    let mut wire = Wire::open_of(&app.http, watched, None).await;
    wire.until_end().await;
    let (bytes, sequences) = (wire.bytes.clone(), wire.sequences());
    assert_eq!(sequences, (1..=head(&app.pool, session_id).await).collect::<Vec<_>>());
    let ends = bytes.windows(2).enumerate().filter(|(_, pair)| pair == b"\n\n").map(|(at, _)| at + 2);
    // Around each boundary, on both sides; and here and there inside.
    let offsets: Vec<usize> = ends.flat_map(|end| end - 2..=end + 2).chain((0..bytes.len()).step_by(97)).collect();
    let cut = stream::iter(offsets).map(|offset| {
        let (http, sequences) = (app.http.clone(), &sequences);
        async move {
            let mut follower = Follower::of(&http, watched);
            if !follower.connect(offset).await {
                follower.follow_to_end().await;
            }
            assert_eq!(&follower.sequences(), sequences, "cut after {offset} bytes");
        }
    });
    cut.buffer_unordered(CLIENTS).collect::<Vec<()>>().await;
    app.finish().await;
}

#[tokio::test]
async fn gate_a7_live_session_streams_are_cut_while_others_write() {
    follow_live(TestApp::start().await).await;
}

#[tokio::test]
async fn gate_a7_live_session_streams_are_cut_with_notifications_off() {
    follow_live(TestApp::start_with(|config| config.database.notifications = Notifications::Off).await).await;
}

async fn follow_live(app: TestApp) {
    let session_id = app.http.create_session("test").await;
    let following: Vec<_> = (0..CLIENTS as u64)
        .map(|seed| tokio::spawn(follow_any_with_cuts(app.http.clone(), Watched::Session(session_id), seed)))
        .collect();
    let working = Working::start(&app.worker);
    let intruder = Intruder::start(app.pool.clone(), session_id, 11);
    for text in ["talk", "slow work", "cut once", "work"] {
        let run_id = app.http.submit(session_id, text).await;
        follow_with_cuts(app.http.clone(), run_id, 1).await.assert_exactly_once(&app.pool).await;
    }
    assert!(intruder.stop().await > 10, "somebody else wrote meanwhile");
    let close = || async { (app.http.close(session_id).await.0 == StatusCode::OK).then_some(()) };
    eventually("the session closes", close).await;
    for follower in following {
        let follower = follower.await.unwrap();
        follower.assert_exactly_once(&app.pool).await;
        assert_eq!(follower.events().last(), Some(&"session.closed"));
    }
    working.stop().await;
    app.finish().await;
}

#[tokio::test]
async fn gate_a7_a_session_stream_is_resumed_across_kill_9_of_the_api() {
    let mut app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let session_id = app.http.create_session("test").await;
    let mut follower = Follower::of(&app.http, Watched::Session(session_id));
    let following = tokio::spawn(async move {
        follower.follow_to_end().await;
        follower
    });
    for text in ["slow work", "noop", "slow work"] {
        let before = head(&app.pool, session_id).await;
        let run_id = app.http.submit(session_id, text).await;
        // In the middle of the run, where it has one.
        let begun = || async { (head(&app.pool, session_id).await > before + 5).then_some(()) };
        eventually("the run has begun", begun).await;
        app.kill_api();
        app.restart_api().await;
        app.http.run_in(run_id, "COMPLETED").await;
    }
    app.http.close(session_id).await;
    let follower = following.await.unwrap();
    follower.assert_exactly_once(&app.pool).await;
    assert!(follower.connections > 3, "the stream was cut");
    app.finish().await;
}

#[tokio::test]
async fn session_streams_are_refused_in_the_order_of_the_checks() {
    let app = TestApp::start().await;
    let owner = app.http.with_caller(Caller::new("acme", "alice"));
    let session_id = owner.create_session("test").await;
    let scoped =
        |scopes: &[Scope]| app.http.with_caller(Caller { scopes: Some(scopes.to_vec()), ..Caller::new("acme", "alice") });
    for (http, id, query, expected) in [
        (scoped(&[Scope::SessionRead]), session_id.to_string(), "", StatusCode::FORBIDDEN),
        (scoped(&[Scope::RunRead]), session_id.to_string(), "?last_event_id=x", StatusCode::BAD_REQUEST),
        (scoped(&[Scope::RunRead]), Uuid::from_u128(1).to_string(), "", StatusCode::NOT_FOUND),
        (owner.clone(), Uuid::from_u128(1).to_string(), "?last_event_id=x", StatusCode::NOT_FOUND),
        (owner.clone(), "x".into(), "", StatusCode::NOT_FOUND),
        (owner.clone(), session_id.to_string(), "?after=1", StatusCode::BAD_REQUEST),
        (owner.clone(), session_id.to_string(), "?last_event_id=2", StatusCode::CONFLICT),
    ] {
        let (status, answer) = http.get(&format!("/v1/sessions/{id}/events{query}")).await;
        assert_eq!(status, expected, "{id}{query}: {answer}");
    }
    app.finish().await;
}

/// Leaving is not stopping, and whoever stops need not be there.
#[tokio::test]
async fn case_c33_a_stream_that_was_left_is_resumed_and_stopped_from_elsewhere() {
    let app = TestApp::start().await;
    let working = Working::start(&app.worker);
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "wait 1").await;
    for watched in [Watched::Session(session_id), Watched::Run(run_id)] {
        let mut tab = Wire::open_of(&app.http, watched, None).await;
        tab.until("the request", |frames| frames.iter().any(|frame| frame.event() == "model.request.started")).await;
        let seen = *tab.sequences().last().unwrap();
        drop(tab); // closed
        let mut reopened = Wire::open_of(&app.http, watched, Some(seen)).await;
        reopened.until_heartbeats(2).await;
        let run = app.http.run(run_id).await;
        assert_eq!((&run["status"], &run["cancel"]), (&json!("RUNNING"), &json!(null)), "nobody has stopped it");
    }
    let seen = head(&app.pool, session_id).await;
    let mut resumed = Wire::open_of(&app.http, Watched::Session(session_id), Some(seen)).await;
    let device = app.http.with_caller(Caller { scopes: Some(vec![Scope::RunCancel]), ..Caller::new("dev", "dev") });
    assert!(device.cancel(run_id).await.0.is_success());
    resumed.until("the end", |frames| frames.iter().any(|frame| frame.event() == "run.cancelled")).await;
    assert!(resumed.sequences().iter().all(|sequence| *sequence > seen));
    working.stop().await;
    app.finish().await;
}

/// Sequences are the same numbers in every session, and say nothing about any other.
#[tokio::test]
async fn case_c36_identifiers_and_cursors_of_others_lead_nowhere() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.http.with_caller(Caller::new("acme", "alice")), app.http.with_caller(Caller::new("evil", "bob")));
    let long = alice.create_session("test").await;
    let long_run = alice.submit(long, "work").await;
    app.work().await;
    let short = bob.create_session("test").await;
    let short_run = bob.submit(short, "noop").await;
    app.work().await;
    let (long_head, short_head) = (head(&app.pool, long).await, head(&app.pool, short).await);
    assert!(long_head > short_head);

    for path in [
        Watched::Session(long).path(),
        Watched::Run(long_run).path(),
        format!("/v1/sessions/{long}/messages"),
        format!("/v1/sessions/{long}"),
        format!("/v1/runs/{long_run}"),
    ] {
        assert_eq!(bob.get(&path).await.0, StatusCode::NOT_FOUND, "{path}");
        for cursor in ["0", "1", "99999"] {
            assert_eq!(resume(&bob, &path, cursor).await.0, StatusCode::NOT_FOUND, "{path} from {cursor}");
        }
    }
    // Its own session from a cursor of the other's: its own events, or a conflict that tells its own head.
    for cursor in 0..=long_head {
        for watched in [Watched::Session(short), Watched::Run(short_run)] {
            if cursor > short_head {
                let (status, body) = resume(&bob, &watched.path(), &cursor.to_string()).await;
                let details: serde_json::Value = serde_json::from_str(&body).unwrap();
                let expected = json!({"reason": "cursor_ahead", "head": short_head});
                assert_eq!((status, &details["error"]["details"]), (StatusCode::CONFLICT, &expected), "{cursor}");
            } else if cursor < short_head {
                let mut wire = Wire::open_of(&bob, watched, Some(cursor)).await;
                wire.until_sequence(short_head).await;
                let frames = wire.frames();
                let mut stored = frames.iter().filter(|frame| frame.id.is_some());
                assert!(stored.all(|frame| frame.data.as_ref().unwrap()["session_id"] == json!(short)), "{cursor}");
            }
        }
    }
    app.finish().await;
}

async fn resume(http: &Http, path: &str, cursor: &str) -> (StatusCode, String) {
    let response = http.request(Method::GET, path).header("Last-Event-ID", cursor).send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}
