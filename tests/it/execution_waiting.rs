//! A run that waits for a person costs nothing: no lease, no slot, no transaction, no memory.

use std::time::Duration;

use baton_core::config::Slots;
use baton_core::fault::Faults;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{TestApp, within};

#[tokio::test]
async fn gate_c2_a_waiting_run_holds_no_lease_no_slot_no_transaction_and_no_memory() {
    /// A worker that had to wait for an execution would take longer.
    const DRAIN: Duration = Duration::from_secs(20);

    let app = TestApp::start_with(|config| {
        config.worker.slots = Slots { interactive: 1, r#async: 0, maintenance: 0, shared: 0 };
        config.worker.drain = DRAIN;
    })
    .await;
    let approval = app.http.start_run("publish news").await;
    app.work().await;
    app.http.run_in(approval, "WAITING_FOR_APPROVAL").await;
    holds_nothing(&app, approval).await;
    // The one slot is free again, for another run that lets it go, and for one that ends.
    let question = app.http.start_run("ask").await;
    app.work().await;
    app.http.run_in(question, "WAITING_FOR_USER").await;
    holds_nothing(&app, question).await;
    let other = app.http.start_run("work").await;
    app.work().await;
    assert_eq!(app.http.run(other).await["status"], "COMPLETED");

    // A worker says goodbye only once it executes nothing: this one has nothing to drain.
    let told_to_stop = CancellationToken::new();
    told_to_stop.cancel();
    let stopping = app.worker.clone().run(told_to_stop);
    tokio::time::timeout(DRAIN / 4, stopping).await.expect("nothing to wait for").unwrap();
    let workers: Vec<bool> = sqlx::query_scalar("SELECT dead FROM workers").fetch_all(&app.pool).await.unwrap();
    assert_eq!(workers, [true]);

    // What waits is found again by whoever comes.
    app.http.resolve_all(approval, "approve_once").await;
    app.http.input(question, "blue").await;
    let heir = app.another_worker(Faults::default()).await;
    heir.renew().await.unwrap();
    while heir.tick().await.unwrap() > 0 {}
    for run_id in [approval, question] {
        assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    }
    app.finish().await;
}

async fn holds_nothing(app: &TestApp, run_id: Uuid) {
    let (owner, resume_after): (Option<Uuid>, Option<String>) =
        sqlx::query_as("SELECT lease_owner, resume_after FROM runs WHERE id = $1")
            .bind(run_id)
            .fetch_one(&app.pool)
            .await
            .unwrap();
    assert_eq!((owner, resume_after), (None, None));
    assert_eq!(app.http.run(run_id).await["usage"]["model_calls"], json!(1));
    // The hub reads the events that it has just heard of, and sweeps of others run: nothing may stay.
    for (what, query) in [
        (
            "no transaction is open",
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
             AND backend_type = 'client backend' AND xact_start IS NOT NULL",
        ),
        (
            "no lock is held",
            "SELECT count(*) = 0 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE a.datname = current_database()
             AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'",
        ),
    ] {
        within(Duration::from_secs(5), what, || async {
            let holds: bool = sqlx::query_scalar(query).fetch_one(&app.pool).await.unwrap();
            holds.then_some(())
        })
        .await;
    }
}
