//! Workers that die in the middle of a step, and again and again under load. The runs end as if nothing had happened, and
//! every follower gets each event exactly once.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::Duration;

use baton_core::clock::Clock;
use futures::future;
use nix::sys::signal::Signal;
use uuid::Uuid;

use crate::support::{Follower, Process, RealApp, SHORT_LEASE, TestApp, eventually, within, without_takeovers};

const ANSWER: &str = "The answer is 1000.";

/// The events of `work` when nobody dies.
async fn undisturbed() -> Vec<String> {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("work").await;
    app.work().await;
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    let events = follower.events().into_iter().map(str::to_owned).collect();
    app.finish().await;
    events
}

#[tokio::test]
async fn case_b9_a_killed_worker_is_replaced_within_twelve_seconds() {
    /// A lease that was just renewed, the sweep, a poll, and two busy cores.
    const REPLACED_WITHIN: Duration = Duration::from_secs(12);

    let app = RealApp::start(&[]).await;
    let clock = Clock::system();
    let doomed = app.start_worker().await;
    let heir = app.start_worker().await;
    // Stopped for a moment, so that it is the other one that claims.
    heir.signal(Signal::SIGSTOP);
    just_renewed(&app, &doomed).await; // the worst moment to die: the lease lasts longest
    let run_id = app.http.start_run("slow work").await;
    let mut follower = Follower::new(&app.http, run_id);
    let killing = async {
        eventually("a tool has answered", || has_event(&app, run_id, "tool.call.completed")).await;
        heir.signal(Signal::SIGCONT);
        doomed.kill();
        let killed = clock.elapsed();
        within(REPLACED_WITHIN, "the run is back in the queue", || has_event(&app, run_id, "run.requeued")).await;
        let requeued = clock.elapsed() - killed;
        within(REPLACED_WITHIN - requeued, "the run is executed again", || has_event(&app, run_id, "run.resumed")).await;
        println!("from the kill to run.requeued {requeued:?}, to run.resumed {:?}", clock.elapsed() - killed);
    };
    tokio::join!(killing, follower.follow_to_end());
    follower.assert_exactly_once(&app.pool).await;
    assert_eq!(follower.answer(), ANSWER);
    app.finish().await;
}

async fn just_renewed(app: &RealApp, worker: &Process) {
    let renewed_at = async || {
        let query = sqlx::query_scalar::<_, String>("SELECT renewed_at::text FROM workers WHERE pid = $1");
        query.bind(i32::try_from(worker.pid()).unwrap()).fetch_one(&app.pool).await.unwrap()
    };
    let before = renewed_at().await;
    eventually("the lease is renewed", || async { (renewed_at().await != before).then_some(()) }).await;
}

async fn has_event(app: &RealApp, run_id: Uuid, event_type: &str) -> Option<()> {
    let query = sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT 1 FROM events WHERE run_id = $1 AND type = $2)");
    query.bind(run_id).bind(event_type).fetch_one(&app.pool).await.unwrap().then_some(())
}

const SESSIONS: usize = 50;

/// What a session sends, one after the other, and what it is answered; each session begins somewhere else.
const MESSAGES: [(&str, &str); 5] =
    [("work", ANSWER), ("slow work", ANSWER), ("noop", "done"), ("talk", "Räksmörgås"), ("slow work", ANSWER)];

/// The events of a run of a single turn without calls.
const ONE_TURN: [&str; 8] = [
    "user.message.created",
    "run.queued",
    "run.claimed",
    "run.started",
    "model.request.started",
    "model.response.completed",
    "assistant.message.completed",
    "run.completed",
];

/// For longer runs by hand: how often a worker is killed.
const KILL_PERIOD: &str = "BATON_KILL_PERIOD_SECONDS";
const KILL_PERIOD_SECONDS: f64 = 3.0;

/// The first kill: everybody has begun.
const FIRST_KILL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn fifty_sessions_five_messages_two_workers_one_killed_every_so_often() {
    let undisturbed = undisturbed().await;
    let period = std::env::var(KILL_PERIOD).map_or(KILL_PERIOD_SECONDS, |seconds| seconds.parse().unwrap());
    let mut variables = SHORT_LEASE.to_vec();
    variables.push(("BATON_EXECUTION__LEASE_LOSSES_MAX", "1000")); // no run is to blame for these deaths
    let app = RealApp::start(&variables).await;
    let mut workers = vec![app.start_worker().await, app.start_worker().await];
    let kills = Cell::new(0);
    let clock = Clock::system();
    tokio::select! {
        _ = future::join_all((0..SESSIONS).map(|number| converse(&app, number, &undisturbed))) => {}
        never = keep_killing(&app, &mut workers, Duration::from_secs_f64(period), &kills) => match never {},
    }
    assert!(kills.get() > 0, "nobody was killed");
    let lost: i64 = sqlx::query_scalar("SELECT sum(lease_losses) FROM runs").fetch_one(&app.pool).await.unwrap();
    println!("{} runs in {:?}: {} kills, {lost} leases lost", SESSIONS * MESSAGES.len(), clock.elapsed(), kills.get());
    app.finish().await;
}

async fn converse(app: &RealApp, number: usize, undisturbed: &[String]) {
    let session_id = app.http.create_session("test").await;
    for (text, answer) in MESSAGES.iter().cycle().skip(number).take(MESSAGES.len()) {
        let run_id = app.http.submit(session_id, text).await;
        let mut follower = Follower::new(&app.http, run_id);
        follower.follow_to_end().await;
        follower.assert_exactly_once(&app.pool).await;
        assert!(follower.answer().starts_with(answer), "run {run_id} of `{text}` answered `{}`", follower.answer());
        let events = without_takeovers(&follower.events());
        if text.ends_with("work") {
            assert_eq!(events, undisturbed, "run {run_id} of `{text}`");
        } else {
            assert_eq!(events, ONE_TURN, "run {run_id} of `{text}`");
        }
    }
}

/// The period is what is tested here, not a wait for something.
async fn keep_killing(app: &RealApp, workers: &mut Vec<Process>, period: Duration, kills: &Cell<u32>) -> Infallible {
    tokio::time::sleep(FIRST_KILL).await;
    loop {
        workers.remove(0).kill();
        kills.set(kills.get() + 1);
        workers.push(app.start_worker().await);
        tokio::time::sleep(period).await;
    }
}
