//! Appending to the log under contention.

use std::time::Duration;

use rand::Rng;
use reqwest::StatusCode;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{Follower, TestApp, id, message};

const SESSIONS: usize = 4;
const WRITERS: usize = 12;
const MESSAGES: usize = 40;

/// Writers collide on purpose: a submission to a busy session takes the counter, inserts, fails and is rolled back, beside
/// submissions, appends, ends and cancellations that commit. Every run that came of it is followed while it is written.
#[tokio::test(flavor = "multi_thread")]
async fn gate_b1_no_rollback_leaves_a_hole_and_no_reader_misses_an_event() {
    let app = TestApp::start().await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(app.http.create_session("test").await);
    }
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(app.worker.clone().run(shutdown.clone()));

    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (http, pool, sessions) = (app.http.clone(), app.pool.clone(), sessions.clone());
            tokio::spawn(async move {
                let (mut followed, mut busy) = (0, 0);
                for _ in 0..MESSAGES {
                    let session_id: Uuid = sessions[rand::rng().random_range(0..SESSIONS)];
                    let (status, run) = http.post(&format!("/v1/sessions/{session_id}/messages"), &message("work")).await;
                    if status == StatusCode::CONFLICT {
                        busy += 1;
                        let pause = Duration::from_millis(rand::rng().random_range(0..5)); // so that others get a turn
                        tokio::time::sleep(pause).await;
                        continue;
                    }
                    assert_eq!(status, StatusCode::ACCEPTED, "{run}");
                    let run_id = id(&run["run_id"]);
                    if rand::rng().random_bool(0.3) {
                        http.cancel(run_id).await;
                    }
                    let mut follower = Follower::new(&http, run_id);
                    follower.follow_to_end().await;
                    follower.assert_exactly_once(&pool).await;
                    followed += 1;
                }
                (followed, busy)
            })
        })
        .collect();
    let (mut followed, mut busy) = (0, 0);
    for writer in writers {
        let (one, other) = writer.await.unwrap();
        followed += one;
        busy += other;
    }
    shutdown.cancel();
    working.await.unwrap().unwrap();
    assert!(followed > SESSIONS && busy > SESSIONS, "writers collided: {followed} runs, {busy} rolled back");
    app.finish().await;
}
