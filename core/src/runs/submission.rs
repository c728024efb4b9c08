//! The statements that store a new run: alone, or together with others.

use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;
use sqlx::PgExecutor;
use uuid::Uuid;

use crate::db;
use crate::events::{Event, UserMessageCreated};
use crate::idempotency::{IdempotencyKey, KeyTtl};
use crate::principal::Principal;
use crate::runs::command::{SubmitMessage, title_of};

/// A message on its way to become a run.
#[derive(Debug)]
pub(super) struct NewRun {
    pub(super) id: Uuid,
    pub(super) session_id: Uuid,
    pub(super) principal: Principal,
    pub(super) command: SubmitMessage,
    pub(super) metadata: String,
    pub(super) key: Option<IdempotencyKey>,
    pub(super) key_ttl: KeyTtl,
}

impl NewRun {
    fn scopes(&self) -> Vec<String> {
        self.principal.scopes.iter().map(ToString::to_string).collect()
    }

    fn message_body(&self) -> String {
        Event::UserMessageCreated(UserMessageCreated { content: self.command.content.clone() }).body()
    }
}

/// What one submission did.
#[derive(Debug)]
pub(super) enum Submission {
    Created {
        last_sequence: i64,
    },
    /// The key came to exist meanwhile: look it up in a new statement.
    KeyExists,
    /// The key was known, or the session is missing, foreign or closed: read which.
    NoSession,
    /// The session has an unfinished run; nothing was left behind, the key neither.
    Busy,
    /// This very run had been committed before, and the answer was lost.
    Repeat,
}

/// The run, its key, its first two events and the session's counter: all or nothing, in one statement. It waits for whoever
/// holds the session or the key.
pub(super) async fn submit(database: impl PgExecutor<'_>, new: &NewRun) -> Result<Submission, sqlx::Error> {
    let NewRun { principal, command, .. } = new;
    let limits = &command.limits;
    let answer = sqlx::query!(
        r#"
        WITH ses AS MATERIALIZED (
            -- Held from here to the commit: it orders the writers of this session.
            SELECT s.id, s.tenant_id, s.principal_id
            FROM sessions s
            WHERE s.id = $1::uuid AND s.tenant_id = $2::text AND s.principal_id = $3::text AND s.status = 'ACTIVE'
              -- The lock is a write: a key that is known already is answered without one.
              AND (SELECT k.key FROM idempotency_keys k
                   WHERE k.tenant_id = $2::text AND k.principal_id = $3::text AND k.key = $18::text) IS NULL
            FOR NO KEY UPDATE
        ), key AS (
            -- Session before key, everywhere. A concurrent request with this key is waited for.
            INSERT INTO idempotency_keys (tenant_id, principal_id, key, request_sha256, run_id, expires_at)
            SELECT ses.tenant_id, ses.principal_id, $18::text, $19::bytea, $4::uuid, now() + $20::float8 * interval '1 second'
            FROM ses WHERE $18::text IS NOT NULL
            ON CONFLICT (tenant_id, principal_id, key) DO NOTHING
            RETURNING run_id
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + 2, title = coalesce(s.title, $16::text), updated_at = now()
            FROM ses WHERE s.id = ses.id AND ($18::text IS NULL OR EXISTS (SELECT 1 FROM key))
            RETURNING s.id, s.tenant_id, s.principal_id, s.agent_id, s.agent_version, s.last_sequence - 1 AS first_sequence
        ), run AS (
            -- The one-unfinished-run index decides: a violation undoes the key and the counter with it. LEAST ignores nulls.
            INSERT INTO runs (id, session_id, tenant_id, principal_id, scopes, agent_id, agent_version, status, priority, metadata, traceparent,
                max_steps, max_model_calls, max_tool_calls, max_input_tokens, max_output_tokens, max_cost_usd, deadline_at, first_sequence)
            SELECT $4::uuid, num.id, num.tenant_id, num.principal_id, $5::text[], num.agent_id, num.agent_version, 'QUEUED', $6::text, $7::text, $8::text,
                least($9::int4, a.max_steps), least($10::int4, a.max_model_calls), least($11::int4, a.max_tool_calls),
                least($12::int8, a.max_input_tokens), least($13::int8, a.max_output_tokens), least($14::numeric, a.max_cost_usd),
                now() + least($15::int4, a.deadline_seconds) * interval '1 second', num.first_sequence
            FROM num JOIN agent_versions a ON a.agent_id = num.agent_id AND a.version = num.agent_version
            RETURNING id, session_id, first_sequence
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT run.session_id, run.first_sequence + e.k, run.id, e.type, 1, e.body
            FROM run CROSS JOIN (VALUES (0, 'user.message.created', $17::text), (1, 'run.queued', '{"priority":"' || $6::text || '"}')) AS e(k, type, body)
        )
        SELECT EXISTS (SELECT 1 FROM ses) AS "session_found!", (SELECT min(first_sequence) FROM run) AS first_sequence
        "#,
        new.session_id,
        principal.tenant_id,
        principal.principal_id,
        new.id,
        &new.scopes(),
        command.priority.as_str(),
        &new.metadata,
        command.traceparent.as_deref(),
        limits.max_steps,
        limits.max_model_calls,
        limits.max_tool_calls,
        limits.max_input_tokens,
        limits.max_output_tokens,
        limits.max_cost_usd,
        limits.deadline_seconds,
        title_of(&command.content),
        new.message_body(),
        new.key.as_ref().map(IdempotencyKey::key),
        new.key.as_ref().map(IdempotencyKey::request_sha256),
        new.key_ttl.0.as_secs_f64(),
    )
    .fetch_one(database)
    .await;
    match answer {
        Ok(row) => Ok(match row.first_sequence {
            Some(first_sequence) => Submission::Created { last_sequence: first_sequence + 1 },
            None if row.session_found => Submission::KeyExists,
            None => Submission::NoSession,
        }),
        Err(error) => match db::constraint(&error) {
            Some("runs_one_unfinished_per_session") => Ok(Submission::Busy),
            Some("runs_pkey") => Ok(Submission::Repeat),
            _ => Err(error),
        },
    }
}

/// A run that was stored together with others.
pub(super) struct Stored {
    pub(super) run_id: Uuid,
    pub(super) last_sequence: i64,
}

/// As [`submit`] for each of them, in one statement and one commit: at most one of a session, and one of a key. Whatever stands
/// in the way of one (a session that is missing, busy or held by somebody, a key that is known) leaves that one out.
pub(super) async fn submit_together(database: impl PgExecutor<'_>, new: &[Arc<NewRun>]) -> Result<Vec<Stored>, sqlx::Error> {
    let key_ttl = new.first().map_or(Duration::ZERO, |run| run.key_ttl.0);
    sqlx::query_as!(
        Stored,
        r#"
        WITH new AS MATERIALIZED (
            SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::int4[], $10::int4[],
                $11::int4[], $12::int8[], $13::int8[], $14::numeric[], $15::int4[], $16::text[], $17::text[], $18::text[], $19::bytea[])
                AS n(session_id, tenant_id, principal_id, run_id, scopes, priority, metadata, traceparent, max_steps, max_model_calls,
                max_tool_calls, max_input_tokens, max_output_tokens, max_cost_usd, deadline_seconds, title, body, key, request_sha256)
        ), ses AS MATERIALIZED (
            SELECT s.id, n.run_id
            FROM new n JOIN sessions s ON s.id = n.session_id
            WHERE s.tenant_id = n.tenant_id AND s.principal_id = n.principal_id AND s.status = 'ACTIVE'
              -- Each is one probe of a unique index. NOT EXISTS could be planned as a hash of the whole table, which grows.
              AND (SELECT r.id FROM runs r WHERE r.session_id = s.id AND r.finished_at IS NULL) IS NULL
              AND (SELECT k.key FROM idempotency_keys k
                   WHERE k.tenant_id = n.tenant_id AND k.principal_id = n.principal_id AND k.key = n.key) IS NULL
            -- By id, as everybody who holds several. One that somebody holds would keep all the others waiting.
            ORDER BY s.id FOR NO KEY UPDATE OF s SKIP LOCKED
        ), key AS (
            INSERT INTO idempotency_keys (tenant_id, principal_id, key, request_sha256, run_id, expires_at)
            SELECT n.tenant_id, n.principal_id, n.key, n.request_sha256, n.run_id, now() + $20::float8 * interval '1 second'
            FROM ses JOIN new n ON n.run_id = ses.run_id WHERE n.key IS NOT NULL
            ORDER BY n.tenant_id, n.principal_id, n.key -- two batches wait for each other's keys in one order
            ON CONFLICT (tenant_id, principal_id, key) DO NOTHING
            RETURNING run_id
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + 2, title = coalesce(s.title, n.title), updated_at = now()
            FROM ses JOIN new n ON n.run_id = ses.run_id
            WHERE s.id = ses.id AND (n.key IS NULL OR n.run_id IN (SELECT key.run_id FROM key))
            RETURNING s.id, n.run_id, s.agent_id, s.agent_version, s.last_sequence - 1 AS first_sequence
        ), run AS (
            -- A session that was busy in the snapshot was left out; the index decides on those that have become so since, and undoes all.
            INSERT INTO runs (id, session_id, tenant_id, principal_id, scopes, agent_id, agent_version, status, priority, metadata, traceparent,
                max_steps, max_model_calls, max_tool_calls, max_input_tokens, max_output_tokens, max_cost_usd, deadline_at, first_sequence)
            SELECT n.run_id, num.id, n.tenant_id, n.principal_id, string_to_array(n.scopes, ' '), num.agent_id, num.agent_version, 'QUEUED',
                n.priority, n.metadata, n.traceparent,
                least(n.max_steps, a.max_steps), least(n.max_model_calls, a.max_model_calls), least(n.max_tool_calls, a.max_tool_calls),
                least(n.max_input_tokens, a.max_input_tokens), least(n.max_output_tokens, a.max_output_tokens), least(n.max_cost_usd, a.max_cost_usd),
                now() + least(n.deadline_seconds, a.deadline_seconds) * interval '1 second', num.first_sequence
            FROM num JOIN new n ON n.run_id = num.run_id JOIN agent_versions a ON a.agent_id = num.agent_id AND a.version = num.agent_version
            RETURNING id, session_id, first_sequence
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT run.session_id, run.first_sequence + e.k, run.id, e.type, 1, e.body
            FROM run JOIN new n ON n.run_id = run.id
            CROSS JOIN LATERAL (VALUES (0, 'user.message.created', n.body), (1, 'run.queued', '{"priority":"' || n.priority || '"}')) AS e(k, type, body)
        )
        SELECT run.id AS run_id, run.first_sequence + 1 AS "last_sequence!" FROM run
        "#,
        &column(new, |run| run.session_id),
        &column(new, |run| run.principal.tenant_id.clone()),
        &column(new, |run| run.principal.principal_id.clone()),
        &column(new, |run| run.id),
        &column(new, |run| run.scopes().join(" ")),
        &column(new, |run| run.command.priority.to_string()),
        &column(new, |run| run.metadata.clone()),
        &column(new, |run| run.command.traceparent.clone()) as &[Option<String>],
        &column(new, |run| run.command.limits.max_steps) as &[Option<i32>],
        &column(new, |run| run.command.limits.max_model_calls) as &[Option<i32>],
        &column(new, |run| run.command.limits.max_tool_calls) as &[Option<i32>],
        &column(new, |run| run.command.limits.max_input_tokens) as &[Option<i64>],
        &column(new, |run| run.command.limits.max_output_tokens) as &[Option<i64>],
        &column(new, |run| run.command.limits.max_cost_usd) as &[Option<Decimal>],
        &column(new, |run| run.command.limits.deadline_seconds) as &[Option<i32>],
        &column(new, |run| title_of(&run.command.content)) as &[Option<String>],
        &column(new, NewRun::message_body),
        &column(new, |run| run.key.as_ref().map(|key| key.key().to_owned())) as &[Option<String>],
        &column(new, |run| run.key.as_ref().map(|key| key.request_sha256().to_vec())) as &[Option<Vec<u8>>],
        key_ttl.as_secs_f64(),
    )
    .fetch_all(database)
    .await
}

/// A column of all rows, as `unnest` takes it: arrays of one length.
fn column<T>(new: &[Arc<NewRun>], of: impl Fn(&NewRun) -> T) -> Vec<T> {
    new.iter().map(|run| of(run)).collect()
}
