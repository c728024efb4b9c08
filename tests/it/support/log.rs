//! What is stored of a run, as the tables have it.

use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

/// The types of a run's events.
pub(crate) async fn events_of(pool: &PgPool, run_id: Uuid) -> Vec<String> {
    let query = sqlx::query_scalar("SELECT type FROM events WHERE run_id = $1 ORDER BY sequence");
    query.bind(run_id).fetch_all(pool).await.unwrap()
}

/// The bodies of its events of one type.
pub(crate) async fn bodies_of(pool: &PgPool, run_id: Uuid, event_type: &str) -> Vec<Value> {
    let query = sqlx::query_scalar("SELECT body FROM events WHERE run_id = $1 AND type = $2 ORDER BY sequence");
    let bodies: Vec<String> = query.bind(run_id).bind(event_type).fetch_all(pool).await.unwrap();
    bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

/// Its calls in order, each with the tool's name and its status.
pub(crate) async fn calls_of(pool: &PgPool, run_id: Uuid) -> Vec<String> {
    let query =
        sqlx::query_scalar("SELECT tool_name || ' ' || status FROM tool_invocations WHERE run_id = $1 ORDER BY step, call_index");
    query.bind(run_id).fetch_all(pool).await.unwrap()
}

/// What is left of a log without the traces of takeovers: the claims that follow them, and the requests that were cut off.
pub(crate) fn without_takeovers<S: AsRef<str>>(events: &[S]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut taken_over = false;
    for event in events.iter().map(AsRef::as_ref) {
        match event {
            "run.requeued" => taken_over = true,
            "run.claimed" if taken_over => {}
            "run.resumed" if taken_over => taken_over = false,
            "model.request.started" if kept.last().is_some_and(|last| last == event) => {}
            event => kept.push(event.to_owned()),
        }
    }
    kept
}
