//! The audit: folds every session's events, and compares the result with the rows. What a statement did wrong shows here,
//! whatever the test looked at.

mod calls;

use std::collections::HashMap;

use baton_core::events::Event;
use baton_core::execution::{Conversation, RunState};
use baton_core::runs::{RunStatus, Usage};
use rust_decimal::Decimal;
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

use self::calls::Hanging;

/// Hold in every snapshot, so they may be looked at while everything runs. Each counts what is wrong.
const INVARIANTS: &[(&str, &str)] = &[
    (
        "events have gaps or duplicates",
        "SELECT count(*) FROM sessions s LEFT JOIN (SELECT session_id, count(*) n, max(sequence) m, min(sequence) l FROM events GROUP BY 1) e
           ON e.session_id = s.id WHERE s.last_sequence <> coalesce(e.n, 0) OR e.m <> e.n OR e.l <> 1",
    ),
    (
        "a pending approval is miscounted",
        "SELECT count(*) FROM runs r WHERE r.pending_approvals <> (SELECT count(*) FROM approvals a WHERE a.run_id = r.id AND a.status = 'PENDING')",
    ),
    (
        "an open question is miscounted",
        "SELECT count(*) FROM runs r WHERE (r.status = 'WAITING_FOR_USER')::int <> (SELECT count(*) FROM questions q WHERE q.run_id = r.id AND q.status = 'OPEN')",
    ),
    (
        "a run waits with a call under way",
        "SELECT count(*) FROM runs r JOIN tool_invocations i ON i.run_id = r.id WHERE r.status LIKE 'WAITING%' AND i.status = 'RUNNING'",
    ),
    (
        "a call is open in a run that has ended",
        "SELECT count(*) FROM runs r JOIN tool_invocations i ON i.run_id = r.id
           WHERE r.finished_at IS NOT NULL AND i.status IN ('PROPOSED', 'WAITING', 'AUTHORIZED', 'RUNNING')",
    ),
    (
        "a closed session has an unfinished run",
        "SELECT count(*) FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.finished_at IS NULL AND s.status = 'CLOSED'",
    ),
    (
        "an event has no session or no run",
        "SELECT count(*) FROM events e LEFT JOIN sessions s ON s.id = e.session_id LEFT JOIN runs r ON r.id = e.run_id
           WHERE s.id IS NULL OR (e.run_id IS NOT NULL AND r.id IS NULL)",
    ),
    (
        "runs of a session overlap",
        "SELECT count(*) FROM events e JOIN runs r ON r.id = e.run_id WHERE e.sequence < r.first_sequence OR e.sequence > r.last_sequence",
    ),
];

/// A key outlives what it has created only where that was deleted; the database of a test remembers what was.
const A_KEY_HAS_NO_RUN: &str =
    "SELECT count(*) FROM idempotency_keys k LEFT JOIN runs r ON r.id = k.run_id WHERE k.run_id IS NOT NULL AND r.id IS NULL";
const AND_NONE_WAS_DELETED: &str = "AND NOT EXISTS (SELECT 1 FROM audited_deletions d WHERE d.run_id = k.run_id)";

/// Makes a database remember which runs were deleted from it.
pub(crate) async fn watch_deletions(pool: &PgPool) {
    sqlx::raw_sql(
        "CREATE TABLE audited_deletions (run_id uuid NOT NULL);
         CREATE FUNCTION audit_deletion() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN INSERT INTO audited_deletions SELECT id FROM old_runs; RETURN NULL; END';
         CREATE TRIGGER audit_deletion AFTER DELETE ON runs REFERENCING OLD TABLE AS old_runs
           FOR EACH STATEMENT EXECUTE FUNCTION audit_deletion();",
    )
    .execute(pool)
    .await
    .unwrap();
}

/// # Panics
/// With everything that is wrong.
pub(crate) async fn audit(pool: &PgPool) {
    let mut wrong = violations(pool).await;
    wrong.extend(differences(pool).await);
    assert!(wrong.is_empty(), "the audit found:\n{}", wrong.join("\n"));
}

/// Looks at the invariants only, in one snapshot.
pub(crate) async fn violations(pool: &PgPool) -> Vec<String> {
    let mut transaction = pool.begin().await.unwrap();
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY").execute(&mut *transaction).await.unwrap();
    let watched: bool =
        sqlx::query_scalar("SELECT to_regclass('audited_deletions') IS NOT NULL").fetch_one(&mut *transaction).await.unwrap();
    let keys = format!("{A_KEY_HAS_NO_RUN} {}", if watched { AND_NONE_WAS_DELETED } else { "" });
    let mut wrong = Vec::new();
    for (what, query) in INVARIANTS.iter().chain(&[("a key has no run", keys.as_str())]) {
        let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(*query)).fetch_one(&mut *transaction).await.unwrap();
        if count > 0 {
            wrong.push(format!("{what}: {count}"));
        }
    }
    wrong
}

#[derive(Debug, FromRow)]
struct RunRow {
    id: Uuid,
    session_id: Uuid,
    status: String,
    lease_epoch: i32,
    lease_losses: i32,
    step_count: i32,
    input_tokens: i64,
    cached_input_tokens: i64,
    cache_write_input_tokens: i64,
    output_tokens: i64,
    reasoning_tokens: i64,
    model_calls: i32,
    tool_calls: i32,
    cost_usd: Option<Decimal>,
    first_sequence: i64,
    last_sequence: Option<i64>,
    cancel_requested: bool,
    resume_after: Option<String>,
    failure_reason: Option<String>,
    pending_approvals: i32,
}

#[derive(Debug, FromRow)]
struct EventRow {
    session_id: Uuid,
    sequence: i64,
    run_id: Option<Uuid>,
    #[sqlx(rename = "type")]
    event_type: String,
    schema_version: i16,
    body: String,
}

/// Where the fold of a run's events is not what its row says.
async fn differences(pool: &PgPool) -> Vec<String> {
    let mut transaction = pool.begin().await.unwrap();
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY").execute(&mut *transaction).await.unwrap();
    let runs: Vec<RunRow> = sqlx::query_as("SELECT *, cancel_requested_at IS NOT NULL AS cancel_requested FROM runs")
        .fetch_all(&mut *transaction)
        .await
        .unwrap();
    let events: Vec<EventRow> =
        sqlx::query_as("SELECT * FROM events ORDER BY session_id, sequence").fetch_all(&mut *transaction).await.unwrap();
    let mut by_run: HashMap<Uuid, Vec<EventRow>> = HashMap::new();
    for event in events {
        if let Some(run_id) = event.run_id {
            by_run.entry(run_id).or_default().push(event);
        }
    }
    let hanging = Hanging::read(&mut transaction).await;
    runs.iter().flat_map(|run| compare(run, by_run.get(&run.id).map(Vec::as_slice).unwrap_or_default(), &hanging)).collect()
}

fn compare(run: &RunRow, events: &[EventRow], hanging: &Hanging) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut decoded = Vec::new();
    let mut state = RunState::new(Conversation::default());
    for event in events {
        let folded = Event::decode(&event.event_type, event.schema_version, &event.body)
            .map_err(|error| error.to_string())
            .and_then(|event| {
                decoded.push(event);
                state.apply(&decoded[decoded.len() - 1]).map_err(|error| error.to_string())
            });
        if let Err(error) = folded {
            wrong.push(format!("run {}: event {}: {error}", run.id, event.sequence));
            return wrong;
        }
    }
    let usage = Usage {
        cache_write_input_tokens: run.cache_write_input_tokens,
        cached_input_tokens: run.cached_input_tokens,
        cost_usd: run.cost_usd.map(|cost| cost.normalize()),
        input_tokens: run.input_tokens,
        model_calls: run.model_calls,
        output_tokens: run.output_tokens,
        reasoning_tokens: run.reasoning_tokens,
        tool_calls: run.tool_calls,
    };
    let terminal = events.last().filter(|_| state.status.is_terminal()).map(|event| event.sequence);
    let mut expect = |what: &str, holds: bool| {
        if !holds {
            wrong.push(format!("run {}: {what}: the row is {run:?}, the fold is {state:?}", run.id));
        }
    };
    expect("status", run.status.parse::<RunStatus>().is_ok_and(|status| status == state.status));
    expect("claims", run.lease_epoch == state.claims);
    expect("losses", run.lease_losses == state.lease_losses);
    expect("steps", run.step_count == i32::try_from(state.step).unwrap());
    expect("usage", usage == state.usage);
    expect("request to cancel", run.cancel_requested == state.cancel_requested);
    expect("cause of resumption", run.resume_after == state.resume_after.map(|cause| cause.to_string()));
    expect("failure", run.failure_reason == state.failure.map(|reason| reason.to_string()));
    expect("first event", events.first().map(|event| event.sequence) == Some(run.first_sequence));
    expect("last event", run.last_sequence == terminal);
    expect("session", events.iter().all(|event| event.session_id == run.session_id));
    expect("open approvals", usize::try_from(run.pending_approvals).is_ok_and(|open| open == open_approvals(&state)));
    wrong.extend(hanging.differences(run.id, &decoded).into_iter().map(|what| format!("run {}: {what}", run.id)));
    wrong
}

/// A run that has ended waits for nobody.
fn open_approvals(state: &RunState) -> usize {
    if state.status.is_terminal() { 0 } else { state.open_approvals().count() }
}
