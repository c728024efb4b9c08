//! What many clients cost an API's process, measured from outside.
//!
//! `BATON_RETURNING_CLIENTS` says how many come back at once; docs/reliability.md has the figures of a thousand.

use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::events::{ApprovalInvalidated, Event};
use futures::StreamExt;
use reqwest::{Method, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::events_wire::notify;
use crate::server_wire::{Raw, request};
use crate::support::{DEADLINE, Http, Process, RealApp};

const CLIENTS: usize = 1_000;
const SESSIONS: usize = 20;

/// Committed while the API is away, to each session: what every client has to be brought.
const MISSED_EVENTS: usize = 60;
const EVENT_BYTES: usize = 5_000;

/// Between two tries: shorter than a client should wait, so that all of them are there at once.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// A field of `/proc/<pid>/status`, in KiB: `VmRSS` now, `VmHWM` at most.
fn memory(process: &Process, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Commits so many events of a run at once: its newest sequence.
async fn append_many(app: &RealApp, session_id: Uuid, run_id: Uuid, events: usize) -> i64 {
    let reason = "x".repeat(EVENT_BYTES);
    let event = Event::ApprovalInvalidated(ApprovalInvalidated { approval_id: Clock::system().new_id(), reason });
    let newest: i64 = sqlx::query_scalar(
        "WITH num AS (UPDATE sessions SET last_sequence = last_sequence + $3 WHERE id = $1 RETURNING last_sequence),
         written AS (INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
             SELECT $1, num.last_sequence - $3 + n, $2, $4, 1, $5 FROM num, generate_series(1, $3) n)
         SELECT last_sequence FROM num",
    )
    .bind(session_id)
    .bind(run_id)
    .bind(i64::try_from(events).unwrap())
    .bind(event.event_type().as_str())
    .bind(event.body())
    .fetch_one(&app.pool)
    .await
    .unwrap();
    notify(&app.pool, session_id, newest).await;
    newest
}

/// A client that keeps the rules and nothing else: the sequences that came.
struct Light {
    http: Http,
    run_id: Uuid,
    got: Vec<i64>,
    /// Its newest sequence, for the test.
    newest: watch::Sender<i64>,
}

impl Light {
    /// Over any number of connections, to the run's end.
    async fn follow(mut self) -> (Uuid, Vec<i64>) {
        while !self.connection().await {
            tokio::time::sleep(TRY_AGAIN).await;
        }
        (self.run_id, self.got)
    }

    /// True: there will be no more.
    async fn connection(&mut self) -> bool {
        let cursor = self.got.last().copied().unwrap_or_default();
        let request = self.http.request(Method::GET, &format!("/v1/runs/{}/events", self.run_id)).header("Last-Event-ID", cursor);
        let Ok(response) = request.send().await else { return false };
        if response.status() == StatusCode::NO_CONTENT {
            return true;
        }
        let (mut chunks, mut rest) = (response.bytes_stream(), Vec::new());
        while let Some(Ok(chunk)) = chunks.next().await {
            rest.extend_from_slice(&chunk);
            if !rest.ends_with(b"\n\n") {
                continue; // a write has whole frames, and is not here as a whole
            }
            let text = String::from_utf8(std::mem::take(&mut rest)).unwrap();
            self.got.extend(text.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse::<i64>().unwrap()));
            self.newest.send_replace(self.got.last().copied().unwrap_or_default());
            if text.contains("\nevent: run.completed\n") {
                return true;
            }
        }
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_c28_a_thousand_clients_that_come_back_at_once_do_not_double_the_memory() {
    let clients = std::env::var("BATON_RETURNING_CLIENTS").map_or(CLIENTS, |clients| clients.parse().unwrap());
    let mut app = RealApp::start(&[]).await;
    let mut runs = Vec::new();
    for _ in 0..SESSIONS {
        let session_id = app.http.create_session("test").await;
        let run_id = app.http.submit(session_id, "noop").await;
        runs.push((session_id, run_id, append_many(&app, session_id, run_id, 1).await));
    }
    let (mut following, mut seen) = (JoinSet::new(), Vec::new());
    for number in 0..clients {
        let (newest, sees) = watch::channel(0);
        following.spawn(Light { http: app.http.clone(), run_id: runs[number % SESSIONS].1, got: Vec::new(), newest }.follow());
        seen.push(sees);
    }
    all_have(&seen, &runs).await;
    let steady = memory(app.api.as_ref().unwrap(), "VmRSS");

    app.kill_api();
    for (session_id, run_id, newest) in &mut runs {
        *newest = append_many(&app, *session_id, *run_id, MISSED_EVENTS).await;
    }
    let clock = Clock::system();
    app.restart_api().await;
    all_have(&seen, &runs).await;
    let (took, peak) = (clock.elapsed(), memory(app.api.as_ref().unwrap(), "VmHWM"));
    println!("{clients} clients came back within {took:?}; {steady} KiB before, {peak} KiB at most");
    assert!(peak <= 2 * steady, "{peak} KiB at most, {steady} KiB in the steady state");

    let worker = app.start_worker().await;
    while let Some(followed) = following.join_next().await {
        let (run_id, got) = followed.unwrap();
        let stored: Vec<i64> = sqlx::query_scalar("SELECT sequence FROM events WHERE run_id = $1 ORDER BY sequence")
            .bind(run_id)
            .fetch_all(&app.pool)
            .await
            .unwrap();
        assert_eq!(got, stored);
    }
    drop(worker);
    app.finish().await;
}

/// Waits until every client has the newest event of its run.
async fn all_have(seen: &[watch::Receiver<i64>], runs: &[(Uuid, Uuid, i64)]) {
    for (number, sees) in seen.iter().enumerate() {
        let newest = runs[number % runs.len()].2;
        let mut sees = sees.clone();
        let has = sees.wait_for(|has| *has >= newest);
        tokio::time::timeout(DEADLINE * 4, has).await.expect("every client gets everything").unwrap();
    }
}

/// What is said in a session does not pile up behind those who do not read it, whether they have to be brought it or hear it live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_c22_clients_that_do_not_read_cost_a_page_each() {
    const SLOW: usize = 100;
    const MISSED: usize = 2_000;
    /// For each: a page of the log on its way, a mebibyte, and what HTTP keeps of it. Everything that was said is five times as much.
    const KIB_MAX: u64 = 2_048;
    let app = RealApp::start(&[]).await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let before = memory(app.api.as_ref().unwrap(), "VmRSS");
    let missed = append_many(&app, session_id, run_id, MISSED).await;
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut raw = Raw::open(&app.http).await;
        raw.send(&request(&format!("GET /v1/runs/{run_id}/events"), "", "")).await;
        slow.push(raw);
    }
    // Reads of the log have their turn in order: when this one has had all its pages, each of those has had one.
    let (newest, sees) = watch::channel(0);
    let reading = tokio::spawn(Light { http: app.http.clone(), run_id, got: Vec::new(), newest }.follow());
    all_have(std::slice::from_ref(&sees), &[(session_id, run_id, missed)]).await;
    for _ in 0..10 {
        let newest = append_many(&app, session_id, run_id, MISSED_EVENTS).await;
        all_have(std::slice::from_ref(&sees), &[(session_id, run_id, newest)]).await;
    }
    let each = memory(app.api.as_ref().unwrap(), "VmHWM").saturating_sub(before) / SLOW as u64;
    println!("{SLOW} clients that did not read {} KiB cost {each} KiB each", (MISSED + 10 * MISSED_EVENTS) * EVENT_BYTES / 1024);
    assert!(each <= KIB_MAX, "{each} KiB for each of those who do not read");
    drop(slow);
    let worker = app.start_worker().await;
    let (_, got) = reading.await.unwrap();
    let stored: i64 =
        sqlx::query_scalar("SELECT count(*) FROM events WHERE run_id = $1").bind(run_id).fetch_one(&app.pool).await.unwrap();
    assert!(got.is_sorted_by(|one, next| one < next) && i64::try_from(got.len()).unwrap() == stored);
    drop(worker);
    app.finish().await;
}
