//! Who may write: a worker that was stopped and replaced writes nothing more; one that drains is not replaced.

use std::sync::Arc;
use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::execution::Queue;
use baton_core::fault::{Action, Faults, Point};
use baton_core::notify::Notifier;
use baton_worker::Worker;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support::{Follower, Process, RealApp, SHORT_LEASE, TestApp, eventually};

/// Leases that expire while a test looks on.
const LEASE: Duration = Duration::from_secs(2);

/// Whoever takes over may be stopped for as long as a test likes.
const LONG_LEASE: [(&str, &str); 2] = [("BATON_WORKER__LEASE", "120s"), ("BATON_WORKER__RENEW", "1s")];

/// How far the takeover has come when the stopped worker goes on.
#[derive(Debug, Clone, Copy)]
enum Takeover {
    /// The run is claimed again, and nothing is written under the new lease: owner and epoch alone tell the two apart.
    Claimed,
    Finished,
}

#[tokio::test]
async fn gate_b3_a_stopped_worker_writes_nothing_after_the_takeover() {
    // Before it knows what it claimed, and with its first write ready to be sent.
    tokio::join!(
        a_stopped_worker_writes_nothing("AfterClaim=stop", Takeover::Claimed),
        a_stopped_worker_writes_nothing("AfterClaim=stop", Takeover::Finished),
        a_stopped_worker_writes_nothing("BeforeAppend=stop", Takeover::Claimed),
        a_stopped_worker_writes_nothing("BeforeAppend=stop", Takeover::Finished),
    );
}

#[tokio::test]
async fn case_b1_a_zombie_in_the_middle_of_a_step_writes_nothing() {
    // With a later write ready to be sent, with an answer that is on no record, with everything but the end on record.
    tokio::join!(
        a_stopped_worker_writes_nothing("BeforeAppend=stop@5", Takeover::Claimed),
        a_stopped_worker_writes_nothing("AfterModel=stop@2", Takeover::Claimed),
        a_stopped_worker_writes_nothing("AfterTool=stop", Takeover::Claimed),
        a_stopped_worker_writes_nothing("BeforeFinish=stop", Takeover::Claimed),
        a_stopped_worker_writes_nothing("BeforeFinish=stop", Takeover::Finished),
    );
}

#[tokio::test]
async fn a_zombie_asks_no_model() {
    let follower = a_stopped_worker_writes_nothing("BeforeModel=stop", Takeover::Claimed).await;
    // The request of the first attempt is on record, and was never made: nobody streamed an answer to it.
    let streamed: Vec<(&Value, &Value)> = follower
        .frames
        .iter()
        .filter(|frame| frame.event() == "message.delta")
        .filter_map(|frame| frame.data.as_ref().map(|data| (&data["step"], &data["attempt"])))
        .collect();
    assert!(streamed.contains(&(&json!(1), &json!(2))), "{streamed:?}");
    assert!(!streamed.contains(&(&json!(1), &json!(1))), "{streamed:?}");
}

/// The first worker stops; the second takes over; the first goes on. What a client saw of it all.
async fn a_stopped_worker_writes_nothing(fault: &str, takeover: Takeover) -> Follower {
    let app = RealApp::start(SHORT_LEASE).await;
    let zombie = app.start_worker_with(&[("BATON_FAULTS", fault)]).await;
    let run_id = app.http.start_run("work").await;
    let mut follower = Follower::new(&app.http, run_id);
    let takeover = async {
        stopped(&zombie).await;
        let heir = take_over(&app, run_id, takeover).await;
        let before = everything_of(&app, run_id).await;
        zombie.signal(Signal::SIGCONT);
        // The heir stands still: only the zombie can do this, and whatever it had begun it has tried to write before.
        let later = app.http.start_run("slow work").await;
        app.http.run_in(later, "COMPLETED").await;
        assert_eq!(identities_of(&app, &zombie).await, ["dead", "alive"], "{fault}: it goes on under a new id");
        assert_eq!(everything_of(&app, run_id).await, before, "{fault}: the zombie wrote");
        heir.signal(Signal::SIGCONT);
        heir
    };
    let (_heir, ()) = tokio::join!(takeover, follower.follow_to_end());
    follower.assert_exactly_once(&app.pool).await;
    assert_eq!(follower.answer(), "The answer is 1000.");
    let count = |event| follower.events().iter().filter(|other| **other == event).count();
    assert_eq!([count("run.claimed"), count("run.requeued"), count("run.completed")], [2, 1, 1], "{fault}");
    app.finish().await;
    follower
}

/// A second worker that takes the run over, so far, and stands still.
async fn take_over(app: &RealApp, run_id: Uuid, takeover: Takeover) -> Process {
    let mut variables = LONG_LEASE.to_vec();
    if matches!(takeover, Takeover::Claimed) {
        variables.push(("BATON_FAULTS", "AfterClaim=stop"));
    }
    let heir = app.start_worker_with(&variables).await;
    if matches!(takeover, Takeover::Finished) {
        app.http.run_in(run_id, "COMPLETED").await;
        heir.signal(Signal::SIGSTOP);
    }
    stopped(&heir).await;
    heir
}

/// Until the process stands still.
async fn stopped(process: &Process) {
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next()
    };
    eventually("the process has stopped", || async { (state() == Some('T')).then_some(()) }).await;
}

/// The run's row and its session's log, as text.
async fn everything_of(app: &RealApp, run_id: Uuid) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT to_jsonb(r)::text FROM runs r WHERE r.id = $1
         UNION ALL (SELECT to_jsonb(e)::text FROM events e JOIN runs r USING (session_id) WHERE r.id = $1 ORDER BY e.sequence)",
    )
    .bind(run_id)
    .fetch_all(&app.pool)
    .await
    .unwrap()
}

/// Under which ids the process has been known, oldest first.
async fn identities_of(app: &RealApp, process: &Process) -> Vec<String> {
    sqlx::query_scalar("SELECT CASE WHEN dead THEN 'dead' ELSE 'alive' END FROM workers WHERE pid = $1 ORDER BY started_at")
        .bind(i32::try_from(process.pid()).unwrap())
        .fetch_all(&app.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_lost_run_is_stopped_at_the_next_renewal() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("wait 60").await;
    let execution = asked(&app, run_id).await;

    // Taken from it behind its back; the worker itself is alive.
    let owner: Uuid =
        sqlx::query_scalar("SELECT lease_owner FROM runs WHERE id = $1").bind(run_id).fetch_one(&app.pool).await.unwrap();
    let queue = Queue::new(app.pool.clone(), Notifier::off(), None);
    assert_eq!(queue.release(owner, &[(run_id, 1)], Duration::ZERO).await.unwrap(), 1);
    is_cut_off(app, run_id, execution).await;
}

#[tokio::test]
async fn a_worker_that_was_declared_dead_stops_at_its_next_renewal() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("wait 60").await;
    let execution = asked(&app, run_id).await;
    app.expire_workers().await;
    assert_eq!(app.worker.sweep().await.unwrap().unwrap().runs_requeued, 1);
    is_cut_off(app, run_id, execution).await;
}

#[tokio::test]
async fn a_claim_that_is_answered_after_its_workers_death_executes_nothing() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("work").await;
    // A call is on record as started: whoever resumes has it to make, and nothing to write before it.
    let never = Arc::new(Semaphore::new(0));
    app.faults.arm(Point::BeforeTool, Action::Pause(Arc::clone(&never)), 1);
    let first = tick(&app.worker);
    eventually("the call has started", || async { (started_calls(&app, run_id).await > 0).then_some(()) }).await;

    app.expire_workers().await;
    let (late_faults, answered) = (Faults::default(), Arc::new(Semaphore::new(0)));
    let late = app.another_worker(late_faults.clone()).await;
    assert_eq!(late.sweep().await.unwrap().unwrap().runs_requeued, 1);
    late_faults.arm(Point::AfterClaim, Action::Pause(Arc::clone(&answered)), 1);
    late_faults.arm(Point::AfterTool, Action::Pause(Arc::clone(&never)), 1);
    let second = tick(&late);
    app.http.run_in(run_id, "RUNNING").await;

    // Its lease is lost while the answer is on its way; it begins anew, with a lease that is fresh and another's.
    app.expire_workers().await;
    assert_eq!(late.sweep().await.unwrap().unwrap().runs_requeued, 1);
    late.renew().await.unwrap();
    answered.add_permits(1);
    let ended = tokio::time::timeout(Duration::from_secs(5), second).await;
    ended.expect("the execution stops before the call").unwrap();

    never.add_permits(1);
    first.await.unwrap(); // fenced
    // A call is unsettled, so the next worker ends the run.
    assert_eq!(app.http.cancel(run_id).await.1["status"], "QUEUED");
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "CANCELLED");
    app.finish().await;
}

async fn started_calls(app: &TestApp, run_id: Uuid) -> i64 {
    let query = sqlx::query_scalar("SELECT count(*) FROM events WHERE run_id = $1 AND type = 'tool.call.started'");
    query.bind(run_id).fetch_one(&app.pool).await.unwrap()
}

/// One tick beside the test.
fn tick(worker: &Worker) -> JoinHandle<usize> {
    let worker = worker.clone();
    tokio::spawn(async move { worker.tick().await.unwrap() })
}

/// An execution in a turn of a minute.
async fn asked(app: &TestApp, run_id: Uuid) -> JoinHandle<usize> {
    let execution = tick(&app.worker);
    eventually("the model is asked", || async { (app.http.run(run_id).await["step_count"] == 1).then_some(()) }).await;
    execution
}

/// The turn ends with the renewal, and the log says nothing of it.
async fn is_cut_off(app: TestApp, run_id: Uuid, execution: JoinHandle<usize>) {
    app.worker.renew().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), execution).await;
    assert_eq!(ended.expect("the execution stops").unwrap(), 1);
    assert_eq!(app.http.run(run_id).await["status"], "QUEUED");
    let (_, run) = app.http.cancel(run_id).await;
    assert_eq!(run["status"], "CANCELLED");
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    assert_eq!(follower.events()[5..], ["run.requeued", "run.cancel_requested", "run.cancelled"]);
    app.finish().await;
}

#[tokio::test]
async fn case_b3_heartbeats_go_on_while_a_worker_drains() {
    tokio::join!(a_draining_worker_ends_its_step(), a_step_longer_than_the_drain_is_handed_back());
}

async fn a_draining_worker_ends_its_step() {
    let draining = Draining::start("20s").await;
    let Draining { app, mut worker, run_id, .. } = draining;
    let run = app.http.run_in(run_id, "COMPLETED").await;
    assert_eq!(run["step_count"], 1);
    assert!(worker.ended().await.success());
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    // One execution: nobody took over what looked dead.
    assert_eq!(
        follower.events(),
        [
            "user.message.created",
            "run.queued",
            "run.claimed",
            "run.started",
            "model.request.started",
            "model.response.completed",
            "assistant.message.completed",
            "run.completed",
        ]
    );
    app.finish().await;
}

async fn a_step_longer_than_the_drain_is_handed_back() {
    let draining = Draining::start("300ms").await;
    let Draining { app, mut worker, run_id, clock, .. } = draining;
    let terminated = clock.elapsed();
    assert!(worker.ended().await.success());
    let gone = clock.elapsed() - terminated;
    assert!(gone < LEASE, "handed back at once, not after {gone:?}");
    assert_eq!(identities_of(&app, &worker).await, ["dead"], "it said goodbye");

    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    let requeued = follower.frames.iter().find(|frame| frame.event() == "run.requeued").unwrap();
    assert_eq!(requeued.data.as_ref().unwrap()["cause"], json!("handed_back"));
    let resumed = follower.frames.iter().find(|frame| frame.event() == "run.resumed").unwrap();
    assert_eq!(resumed.data.as_ref().unwrap()["after"], json!("handed_back"));
    assert_eq!(follower.answer(), "paused");
    let (claims, losses): (i32, i32) = sqlx::query_as("SELECT lease_epoch, lease_losses FROM runs WHERE id = $1")
        .bind(run_id)
        .fetch_one(&app.pool)
        .await
        .unwrap();
    assert_eq!((claims, losses), (2, 0));
    app.finish().await;
}

/// A worker that was told to end in a turn that lasts longer than three leases, beside one that is idle.
struct Draining {
    app: RealApp,
    worker: Process,
    run_id: Uuid,
    clock: Clock,
    _idle: Process,
}

impl Draining {
    async fn start(drain: &str) -> Self {
        let app = RealApp::start(SHORT_LEASE).await;
        let worker = app.start_worker_with(&[("BATON_WORKER__DRAIN", drain)]).await;
        let run_id = app.http.start_run("pause long").await;
        eventually("the model is asked", || async { (app.http.run(run_id).await["step_count"] == 1).then_some(()) }).await;
        let idle = app.start_worker().await;
        worker.signal(Signal::SIGTERM);
        Self { app, worker, run_id, clock: Clock::system(), _idle: idle }
    }
}
