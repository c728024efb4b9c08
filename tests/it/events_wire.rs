//! What the tests of streams stand on: a stream as it comes over the wire, a worker that works, and others who write to
//! the log.

use std::pin::Pin;
use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::events::{ApprovalInvalidated, Event, SessionCreated};
use baton_worker::Worker;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::{Method, StatusCode};
use sqlx::{PgConnection, PgPool};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{DEADLINE, Follower, Frame, Http, TestApp, Watched, parse_frames};

/// One connection to a stream, and every byte that came over it.
pub(crate) struct Wire {
    pub(crate) status: StatusCode,
    pub(crate) bytes: Vec<u8>,
    body: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
}

impl Wire {
    pub(crate) async fn open(http: &Http, run_id: Uuid, cursor: Option<i64>) -> Self {
        Self::open_of(http, Watched::Run(run_id), cursor).await
    }

    pub(crate) async fn open_of(http: &Http, watched: Watched, cursor: Option<i64>) -> Self {
        let mut request = http.request(Method::GET, &watched.path());
        if let Some(cursor) = cursor {
            request = request.header("Last-Event-ID", cursor);
        }
        let response = request.send().await.unwrap();
        Self { status: response.status(), bytes: Vec::new(), body: Box::pin(response.bytes_stream()) }
    }

    pub(crate) fn frames(&self) -> Vec<Frame> {
        parse_frames(&self.bytes)
    }

    /// The sequences of what is stored, in the order in which they came.
    pub(crate) fn sequences(&self) -> Vec<i64> {
        self.frames().iter().filter_map(|frame| frame.id).collect()
    }

    /// Reads on until the frames are as wanted.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl Fn(&[Frame]) -> bool) {
        self.until_within(DEADLINE, what, wanted).await;
    }

    pub(crate) async fn until_within(&mut self, deadline: Duration, what: &str, wanted: impl Fn(&[Frame]) -> bool) {
        let reading = async {
            while !wanted(&self.frames()) {
                let chunk = self.body.next().await.unwrap_or_else(|| panic!("the stream ended before {what}"));
                self.bytes.extend_from_slice(&chunk.unwrap());
            }
        };
        let read = tokio::time::timeout(deadline, reading).await;
        read.unwrap_or_else(|_| panic!("waited {deadline:?} in vain: {what}; there is {:#?}", self.frames()));
    }

    /// Reads on until this stored event has come.
    pub(crate) async fn until_sequence(&mut self, sequence: i64) {
        let here = |frames: &[Frame]| frames.iter().any(|frame| frame.id == Some(sequence));
        self.until(&format!("event {sequence}"), here).await;
    }

    /// Reads on through so many more heartbeats: silence, on this stream, for at least the time between them.
    pub(crate) async fn until_heartbeats(&mut self, more: usize) {
        let heartbeats = |frames: &[Frame]| {
            frames.iter().filter(|frame| frame.comment.as_deref() == Some("hb") && frame.retry.is_none()).count()
        };
        let before = heartbeats(&self.frames());
        self.until("silence", |frames| heartbeats(frames) >= before + more).await;
    }

    /// Reads to the end that the server makes.
    pub(crate) async fn until_end(&mut self) {
        let reading = async {
            while let Some(chunk) = self.body.next().await {
                self.bytes.extend_from_slice(&chunk.unwrap());
            }
        };
        tokio::time::timeout(DEADLINE, reading).await.expect("the server ends the stream");
    }
}

/// Follows a run to its end over connections that are cut again and again, after random numbers of bytes.
pub(crate) async fn follow_with_cuts(http: Http, run_id: Uuid, seed: u64) -> Follower {
    follow_any_with_cuts(http, Watched::Run(run_id), seed).await
}

/// The same of a run or a session.
pub(crate) async fn follow_any_with_cuts(http: Http, watched: Watched, seed: u64) -> Follower {
    let mut random = StdRng::seed_from_u64(seed);
    let mut follower = Follower::of(&http, watched);
    let following = async { while !follower.connect(random.random_range(1..2_500)).await {} };
    tokio::time::timeout(DEADLINE * 4, following).await.unwrap_or_else(|_| panic!("seed {seed}: {watched:?} does not end"));
    follower
}

/// Executes what is due, under a lease that was renewed now, however long the test has taken until here.
pub(crate) async fn work(app: &TestApp) {
    app.worker.renew().await.unwrap();
    app.work().await;
}

/// A worker that executes whatever is due until it is stopped.
pub(crate) struct Working {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Working {
    pub(crate) fn start(worker: &Worker) -> Self {
        let shutdown = CancellationToken::new();
        let run = worker.clone().run(shutdown.clone());
        let task = tokio::spawn(async move { run.await.unwrap() });
        Self { shutdown, task }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

/// Appends an event as the statements of the product do: the session's counter first, whose row is locked until the
/// transaction ends. Of the run it is an event that no fold and no row has to do with; without one it is an event of the session.
pub(crate) async fn append(connection: &mut PgConnection, session_id: Uuid, run_id: Option<Uuid>) -> i64 {
    let event = match run_id {
        Some(_) => Event::ApprovalInvalidated(ApprovalInvalidated {
            approval_id: Clock::system().new_id(),
            reason: "written by a test".into(),
        }),
        None => Event::SessionCreated(SessionCreated { agent_id: "test".into(), agent_version: "1".into() }),
    };
    sqlx::query_scalar(
        "WITH num AS (UPDATE sessions SET last_sequence = last_sequence + 1 WHERE id = $1 RETURNING id, last_sequence)
         INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
         SELECT num.id, num.last_sequence, $2, $3, 1, $4 FROM num RETURNING sequence",
    )
    .bind(session_id)
    .bind(run_id)
    .bind(event.event_type().as_str())
    .bind(event.body())
    .fetch_one(connection)
    .await
    .unwrap()
}

/// Commits an event of a run and says so, as a worker would.
pub(crate) async fn append_and_notify(pool: &PgPool, session_id: Uuid, run_id: Uuid) -> i64 {
    let sequence = append(&mut pool.acquire().await.unwrap(), session_id, Some(run_id)).await;
    notify(pool, session_id, sequence).await;
    sequence
}

/// Sends the hint that a session has new events.
pub(crate) async fn notify(pool: &PgPool, session_id: Uuid, sequence: i64) {
    let payload = format!("{session_id}:{sequence}");
    sqlx::query("SELECT pg_notify('baton_events', $1)").bind(payload).execute(pool).await.unwrap();
}

/// Somebody else who writes to a session all the time: events of the session and of its unfinished run, in transactions
/// that hold both rows for a while, and of which every fifth rolls back. Nobody is told.
pub(crate) struct Intruder {
    stop: CancellationToken,
    task: JoinHandle<u32>,
}

impl Intruder {
    pub(crate) fn start(pool: PgPool, session_id: Uuid, seed: u64) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(intrude(pool, session_id, StdRng::seed_from_u64(seed), stop.clone()));
        Self { stop, task }
    }

    /// How much it has committed.
    pub(crate) async fn stop(self) -> u32 {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

async fn intrude(pool: PgPool, session_id: Uuid, mut random: StdRng, stop: CancellationToken) -> u32 {
    const HELD_MAX: Duration = Duration::from_millis(10);
    /// Whoever takes a row again as soon as it is free can starve those who wait for it: that is no test of streams.
    const REST_MAX: Duration = Duration::from_millis(20);
    let mut committed = 0;
    while !stop.is_cancelled() {
        let mut transaction = pool.begin().await.unwrap();
        // Runs before sessions, as everywhere.
        let run_id: Option<Uuid> =
            sqlx::query_scalar("SELECT id FROM runs WHERE session_id = $1 AND finished_at IS NULL FOR NO KEY UPDATE")
                .bind(session_id)
                .fetch_optional(&mut *transaction)
                .await
                .unwrap();
        append(&mut transaction, session_id, run_id.filter(|_| random.random_bool(0.5))).await;
        sleep(&mut transaction, HELD_MAX.mul_f64(random.random())).await;
        if random.random_bool(0.2) {
            transaction.rollback().await.unwrap();
        } else {
            transaction.commit().await.unwrap();
            committed += 1;
        }
        sleep(&mut pool.acquire().await.unwrap(), REST_MAX.mul_f64(random.random())).await;
    }
    committed
}

async fn sleep(connection: &mut PgConnection, time: Duration) {
    sqlx::query("SELECT pg_sleep($1)").bind(time.as_secs_f64()).execute(connection).await.unwrap();
}
