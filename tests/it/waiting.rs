//! What a run costs that waits for a person: rows, and nothing else.
//!
//! `BATON_WAITING_RUNS` says how many wait; docs/reliability.md has the figures of ten thousand.

use std::future::Future;
use std::time::Duration;

use baton_core::runs::SubmitMessage;
use baton_core::sessions::CreateSession;
use baton_core::{Principal, Services};
use futures::{StreamExt, stream};
use serde_json::Map;

use crate::support::TestApp;

const WAITING_RUNS: usize = 300;

/// Measurements of each kind; the median counts.
const TIMES: usize = 41;

/// Everything looks at what is due by indexes, whatever else there is. The factor is room for a busy machine; a scan of the runs
/// that wait would be far above it.
const COSTS_MORE_MAX: u32 = 3;

/// Below it a median is noise.
const NOISE: Duration = Duration::from_millis(3);

#[tokio::test]
async fn runs_that_wait_cost_a_worker_nothing() {
    let waiting = std::env::var("BATON_WAITING_RUNS").map_or(WAITING_RUNS, |runs| runs.parse().unwrap());
    let app = TestApp::start().await;
    // Beside as many that have ended: tables that are empty are another matter.
    work_off(&app, waiting, "noop").await;
    let before = Costs::measure(&app).await;
    work_off(&app, waiting, "publish news").await;

    let (waits, leases, held): (i64, i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE status = 'WAITING_FOR_APPROVAL'), count(lease_owner),
            (SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_class c ON c.oid = l.relation
             WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND c.relname IN ('runs', 'sessions', 'approvals'))
         FROM runs",
    )
    .fetch_one(&app.pool)
    .await
    .unwrap();
    assert_eq!((usize::try_from(waits).unwrap(), leases, held), (waiting, 0, 0), "waiting, with leases, with locks");
    let after = Costs::measure(&app).await;
    println!("{waiting} runs wait; before {before:?}, after {after:?}");
    for (what, before, after) in before.beside(&after) {
        assert!(after <= (before * COSTS_MORE_MAX).max(NOISE), "{what}: {before:?} before, {after:?} after");
    }
    app.finish().await;
}

/// So many runs, executed as far as they go.
async fn work_off(app: &TestApp, runs: usize, text: &str) {
    let mut submitted = stream::iter(0..runs).map(|_| submit(&app.services, text)).buffer_unordered(16);
    while submitted.next().await.is_some() {}
    app.work().await;
    sqlx::query("ANALYZE").execute(&app.pool).await.unwrap();
}

async fn submit(services: &Services, text: &str) {
    let principal = Principal::dev();
    let command = CreateSession { agent_id: "test".into(), metadata: Map::new() };
    let session = services.sessions.create(&principal, None, command).await.unwrap().session;
    services.runs.submit(&principal, session.id, None, SubmitMessage::text(text)).await.unwrap();
}

/// What a worker does all the time, and what somebody else's run takes.
#[derive(Debug)]
struct Costs {
    sweep: Duration,
    renew: Duration,
    claim: Duration,
    run: Duration,
}

impl Costs {
    async fn measure(app: &TestApp) -> Self {
        let worker = &app.worker;
        Self {
            sweep: median(app, || async { assert!(worker.sweep().await.unwrap().is_some()) }).await,
            renew: median(app, || async { worker.renew().await.unwrap() }).await,
            claim: median(app, || async { assert_eq!(worker.tick().await.unwrap(), 0) }).await,
            run: median(app, || async {
                app.http.start_run("noop").await;
                worker.renew().await.unwrap();
                assert_eq!(worker.tick().await.unwrap(), 1);
            })
            .await,
        }
    }

    fn beside(&self, other: &Self) -> [(&'static str, Duration, Duration); 4] {
        [
            ("a sweep", self.sweep, other.sweep),
            ("a renewal", self.renew, other.renew),
            ("an empty claim", self.claim, other.claim),
            ("another's run", self.run, other.run),
        ]
    }
}

async fn median<F: Future<Output = ()>>(app: &TestApp, what: impl Fn() -> F) -> Duration {
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = app.clock.elapsed();
        what().await;
        times.push(app.clock.elapsed() - began);
    }
    times.sort();
    times[TIMES / 2]
}
