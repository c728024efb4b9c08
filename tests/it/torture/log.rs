//! What the log says in the end: each write of a worker whole, in order, once, and by who held the lease; and everything that
//! was acknowledged. What the rows must say beside it is the audit's.

use std::collections::{HashMap, HashSet};

use baton_core::events::Event;
use baton_core::execution::{Conversation, RunState};
use baton_core::runs::RunStatus;
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

use super::answers;
use super::facts::Facts;
use super::marker::{Marker, Write, is_part_of_a_write};

#[derive(Debug, FromRow)]
struct RunRow {
    id: Uuid,
    session_id: Uuid,
    status: String,
    appends: i32,
    lease_epoch: i32,
    cancel_requested: bool,
}

type StoredEvent = (Uuid, i64, String, i16, String);

/// Everything that is wrong.
pub(super) async fn check(pool: &PgPool, facts: &Facts) -> Vec<String> {
    let rows: Vec<RunRow> =
        sqlx::query_as("SELECT *, cancel_requested_at IS NOT NULL AS cancel_requested FROM runs").fetch_all(pool).await.unwrap();
    let runs: HashMap<Uuid, RunRow> = rows.into_iter().map(|run| (run.id, run)).collect();
    let events: Vec<StoredEvent> = sqlx::query_as(
        "SELECT run_id, sequence, type, schema_version, body FROM events WHERE run_id IS NOT NULL ORDER BY session_id, sequence",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let mut logs: HashMap<Uuid, Vec<(i64, Event)>> = HashMap::new();
    for (run, sequence, event_type, version, body) in events {
        logs.entry(run).or_default().push((sequence, Event::decode(&event_type, version, &body).unwrap()));
    }
    let mut wrong = Vec::new();
    let (mut written, mut unread) = (HashSet::new(), HashSet::new());
    for run in runs.values() {
        match writes(logs.get(&run.id).map(Vec::as_slice).unwrap_or_default()) {
            Ok(writes) => {
                if writes.len() as i64 != i64::from(run.appends) {
                    wrong.push(format!("run {}: {} writes in the log, {} in the row", run.id, writes.len(), run.appends));
                }
                written.extend(writes.into_iter().map(|write| (run.id, write)));
            }
            Err(error) => {
                wrong.push(format!("run {}: {error}", run.id));
                unread.insert(run.id);
            }
        }
    }
    let lost_writes = facts.written.iter().filter(|write| !unread.contains(&write.0) && !written.contains(write));
    wrong.extend(lost_writes.map(|write| format!("acknowledged write lost: {write:?}")));
    wrong.extend(lost(facts, &runs));
    wrong.extend(created(pool, facts).await);
    wrong.extend(answers::check(pool, facts, &logs).await);
    wrong
}

/// The writes of workers in a run's log.
fn writes(log: &[(i64, Event)]) -> Result<Vec<Write>, String> {
    let mut state = RunState::new(Conversation::default());
    let mut writes: Vec<Write> = Vec::new();
    // Of the write that is not whole yet: its last event, and that one's sequence.
    let mut open: Option<(Marker, i64)> = None;
    for (sequence, event) in log {
        let marker = Marker::of(event);
        match (open, marker) {
            (None, None) if is_part_of_a_write(event) => {
                return Err(format!("event {sequence}: {} belongs to no write", event.event_type()));
            }
            (None, None) => {}
            (None, Some(first)) => {
                let write = first.write;
                if state.status != RunStatus::Running || state.claims != write.epoch {
                    return Err(format!(
                        "event {sequence}: {write:?} of a fenced worker, while {} in epoch {}",
                        state.status, state.claims
                    ));
                }
                if write.number as usize != writes.len() + 1 || first.index != 0 {
                    return Err(format!("event {sequence}: {first:?} is lost, doubled or out of order"));
                }
                writes.push(write);
            }
            (Some((before, at)), Some(next)) => {
                if next != (Marker { index: before.index + 1, ..before }) || *sequence != at + 1 {
                    return Err(format!("event {sequence}: {next:?} after {before:?} at {at}"));
                }
            }
            (Some((before, at)), None) => {
                let is_last = before.index + 2 == before.count;
                // The sweep says so, too, but not in the middle of somebody's write.
                let is_part = is_part_of_a_write(event) || matches!(event, Event::ToolCallUncertain(_));
                if !(is_part || is_last && ends_a_write(event)) || *sequence != at + 1 {
                    return Err(format!("event {sequence}: {} after {before:?} at {at}", event.event_type()));
                }
            }
        }
        let place = marker.or(open.map(|(before, _)| Marker { index: before.index + 1, ..before }));
        open = place.filter(|place| place.index + 1 < place.count).map(|place| (place, *sequence));
        state.apply(event).map_err(|error| format!("event {sequence}: {error}"))?;
    }
    match open {
        None => Ok(writes),
        Some(open) => Err(format!("the log ends in the middle of {open:?}")),
    }
}

fn ends_a_write(event: &Event) -> bool {
    matches!(event, Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) | Event::RunRequeued(_))
}

/// What was acknowledged of runs and is not there.
fn lost(facts: &Facts, runs: &HashMap<Uuid, RunRow>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |what: &str, id: &dyn std::fmt::Debug, holds: bool| {
        if !holds {
            wrong.push(format!("{what}: {id:?}"));
        }
    };
    let has = |id: &Uuid, holds: fn(&RunRow) -> bool| runs.get(id).is_some_and(holds);
    for (run, session) in &facts.submitted {
        expect("acknowledged submit lost", run, runs.get(run).is_some_and(|row| row.session_id == *session));
    }
    for run in &facts.cancelled {
        expect("acknowledged cancel lost", run, has(run, |row| row.status == RunStatus::Cancelled.as_str()));
    }
    for run in &facts.cancel_requested {
        expect("acknowledged request to cancel lost", run, has(run, |row| row.cancel_requested));
    }
    let mut epochs = HashSet::new();
    for claim @ (run, epoch) in &facts.claimed {
        expect("one claim was given to two", claim, epochs.insert(claim));
        expect("acknowledged claim lost", claim, runs.get(run).is_some_and(|row| row.lease_epoch >= *epoch));
    }
    wrong
}

/// What was acknowledged of sessions and keys and is not there.
async fn created(pool: &PgPool, facts: &Facts) -> Vec<String> {
    let sessions: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM sessions").fetch_all(pool).await.unwrap();
    let keys: Vec<(String, String, Uuid)> =
        sqlx::query_as("SELECT tenant_id, key, coalesce(run_id, session_id) FROM idempotency_keys")
            .fetch_all(pool)
            .await
            .unwrap();
    let (sessions, keys): (HashSet<_>, HashSet<_>) = (sessions.into_iter().collect(), keys.into_iter().collect());
    let lost_sessions =
        facts.created.iter().filter(|id| !sessions.contains(id)).map(|id| format!("acknowledged session lost: {id}"));
    let lost_keys = facts.keys.iter().filter(|key| !keys.contains(&(key.tenant.clone(), key.key.clone(), key.created)));
    lost_sessions.chain(lost_keys.map(|key| format!("a key does not name what it created: {key:?}"))).collect()
}
