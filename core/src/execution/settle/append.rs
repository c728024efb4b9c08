//! Appending events of executing runs, ending them where they end: many runs in one statement.

use rust_decimal::Decimal;
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use crate::execution::settle::Ending;
use crate::execution::settle::model_rows::ModelColumns;
use crate::execution::settle::rows::CallColumns;
use crate::models::ModelRows;
use crate::runs::Usage;
use crate::tools::CallRows;

/// What one worker writes for one run. A statement takes a run once: two rows of one run could not be told apart in it.
#[derive(Debug)]
pub(in crate::execution) struct AppendRow {
    pub(in crate::execution) fence: Fence,
    /// None: the run goes on.
    pub(in crate::execution) ending: Option<Ending>,
    /// Totals of the fold, not increments.
    pub(in crate::execution) step_count: i32,
    pub(in crate::execution) usage: Usage,
    /// The worker has seen the request to cancel.
    pub(in crate::execution) cancel_observed: bool,
    pub(in crate::execution) events: Vec<EventRow>,
    pub(in crate::execution) calls: CallRows,
    pub(in crate::execution) model: ModelRows,
}

#[derive(Debug)]
pub(in crate::execution) struct EventRow {
    pub(in crate::execution) event_type: &'static str,
    pub(in crate::execution) schema_version: i16,
    pub(in crate::execution) body: String,
}

/// What a write must find, or it writes nothing: the lease, and the number of writes so far.
#[derive(Debug, Clone, Copy)]
pub(in crate::execution) struct Fence {
    pub(in crate::execution) run_id: Uuid,
    pub(in crate::execution) owner: Uuid,
    pub(in crate::execution) epoch: i32,
    /// Writes of workers so far; one more after this.
    pub(in crate::execution) appends: i32,
}

/// A run that was written, and the sequence of its last event.
#[derive(Debug, Clone, Copy)]
pub(in crate::execution) struct Appended {
    pub(in crate::execution) run_id: Uuid,
    pub(in crate::execution) last_sequence: i64,
}

/// For each run all or nothing. A run that is absent from the answer was not written: fenced, or written before.
/// COMPLETED does not look at a request to cancel, by design: the step had finished before it was seen.
///
/// # Errors
/// Any error undoes the whole statement: then each member alone.
pub(in crate::execution) async fn append_and_settle(
    database: impl PgExecutor<'_>,
    rows: &[AppendRow],
) -> Result<Vec<Appended>, sqlx::Error> {
    let runs = Columns::of(rows);
    let (mut calls, mut model) = (CallColumns::default(), ModelColumns::default());
    let (mut event_runs, mut types, mut versions, mut bodies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        calls.push(row.fence.run_id, &row.calls);
        model.push(row.fence.run_id, &row.model);
        for event in &row.events {
            event_runs.push(row.fence.run_id);
            types.push(event.event_type.to_owned());
            versions.push(event.schema_version);
            bodies.push(event.body.clone());
        }
    }
    let written = sqlx::query!(
        r#"
        WITH want AS MATERIALIZED (
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int4[], $5::text[], $6::int4[], $7::int4[], $8::int4[], $9::int8[],
                $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::numeric[], $15::bool[], $16::text[], $17::text[], $18::int4[], $19::text[],
                $47::int4[])
                AS w(run_id, owner, epoch, appends, new_status, step_count, model_calls, tool_calls, input_tokens,
                cached, cache_write, output_tokens, reasoning, cost, observed, failure_reason, failure_message, failure_step, failure_class,
                events)
        ), ev AS MATERIALIZED (
            SELECT e.*, row_number() OVER (PARTITION BY e.run_id ORDER BY e.ord) AS k
            FROM unnest($20::uuid[], $21::text[], $22::int2[], $23::text[]) WITH ORDINALITY AS e(run_id, type, schema_version, body, ord)
        ), own AS MATERIALIZED (
            -- The fence, under the row's lock: owner, epoch, and the number of writes so far. Who has an owner is RUNNING (a CHECK).
            -- Runs in order of id. What is wanted goes along from here to the update: joined again, it would be by loops.
            SELECT r.session_id, w.*
            FROM want w JOIN runs r ON r.id = w.run_id
            WHERE r.lease_owner = w.owner AND r.lease_epoch = w.epoch AND r.appends = w.appends
            ORDER BY r.id FOR NO KEY UPDATE OF r
        ), ses AS MATERIALIZED (
            -- Then sessions, in order of id.
            SELECT own.* FROM own JOIN sessions s ON s.id = own.session_id ORDER BY s.id FOR NO KEY UPDATE OF s
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + ses.events,
                updated_at = CASE WHEN ses.new_status IN ('COMPLETED','FAILED','CANCELLED') THEN now() ELSE s.updated_at END
            FROM ses WHERE s.id = ses.session_id
            RETURNING ses.*, s.last_sequence - ses.events AS base, s.last_sequence AS top
        ), upd AS (
            -- One UPDATE for a run: a second one of the same row in the same statement would be skipped.
            UPDATE runs r SET
                status = coalesce(w.new_status, r.status),
                lease_owner = CASE WHEN w.new_status IS NULL THEN r.lease_owner END,
                appends = r.appends + 1,
                step_count = w.step_count, model_calls = w.model_calls, tool_calls = w.tool_calls, input_tokens = w.input_tokens,
                cached_input_tokens = w.cached, cache_write_input_tokens = w.cache_write, output_tokens = w.output_tokens,
                reasoning_tokens = w.reasoning, cost_usd = w.cost,
                cancel_observed_at = CASE WHEN w.observed AND r.cancel_requested_at IS NOT NULL
                    THEN coalesce(r.cancel_observed_at, now()) ELSE r.cancel_observed_at END,
                failure_reason = w.failure_reason, failure_message = w.failure_message, failure_step = w.failure_step,
                failure_class = w.failure_class,
                finished_at = CASE WHEN w.new_status IN ('COMPLETED','FAILED','CANCELLED') THEN now() END,
                last_sequence = CASE WHEN w.new_status IN ('COMPLETED','FAILED','CANCELLED') THEN w.top END,
                resume_after = CASE WHEN w.new_status = 'QUEUED' THEN 'handed_back' END,
                status_since = CASE WHEN w.new_status IS NULL THEN r.status_since ELSE now() END,
                updated_at = now()
            FROM num w WHERE r.id = w.run_id
            RETURNING r.id AS run_id, r.session_id, r.tenant_id, r.principal_id, w.top, r.finished_at IS NOT NULL AS is_over
        ), inv AS (
            -- What hangs on a run changes only here, under its row's lock, and with an update of the run.
            INSERT INTO tool_invocations (id, run_id, step, call_index, call_id, tool_name, tool_version, schema_sha256, arguments,
                side_effect, idempotency, idempotency_key, status)
            SELECT i.id, i.run_id, i.step, i.call_index, i.call_id, i.tool_name, i.tool_version, i.schema_sha256, i.arguments,
                i.side_effect, i.idempotency, i.key, i.status
            FROM upd JOIN unnest($24::uuid[], $25::uuid[], $26::int4[], $27::int4[], $28::text[], $29::text[], $30::text[], $31::text[],
                $32::text[], $33::text[], $34::text[], $35::text[], $36::text[])
                AS i(run_id, id, step, call_index, call_id, tool_name, tool_version, schema_sha256, arguments, side_effect, idempotency,
                key, status) ON i.run_id = upd.run_id
        ), moved AS (
            UPDATE tool_invocations i SET status = m.status, updated_at = now(),
                effect_sent_at = CASE WHEN m.effect_sent THEN coalesce(i.effect_sent_at, now()) ELSE i.effect_sent_at END
            FROM upd JOIN unnest($37::uuid[], $38::uuid[], $39::text[], $40::bool[]) AS m(run_id, id, status, effect_sent)
                ON m.run_id = upd.run_id
            WHERE i.id = m.id AND i.run_id = m.run_id
        ), art AS (
            INSERT INTO artifacts (id, session_id, run_id, tenant_id, principal_id, name, media_type, sha256, size_bytes)
            SELECT a.id, upd.session_id, a.run_id, upd.tenant_id, upd.principal_id, a.name, a.media_type, a.sha256, a.size_bytes
            FROM upd JOIN unnest($41::uuid[], $42::uuid[], $43::text[], $44::text[], $45::text[], $46::int8[])
                AS a(run_id, id, name, media_type, sha256, size_bytes) ON a.run_id = upd.run_id
        ), started AS (
            -- A call of a model, at what is held for it.
            INSERT INTO model_calls (run_id, step, attempt, provider, model, input_tokens, output_tokens, input_price, cached_input_price,
                cache_write_input_price, output_price, cost_usd, cost_source)
            SELECT c.run_id, c.step, c.attempt, c.provider, c.model, c.input_tokens, c.output_tokens, c.input_price, c.cached_input_price,
                c.cache_write_input_price, c.output_price, c.cost_usd, CASE WHEN c.cost_usd IS NULL THEN 'unpriced' ELSE 'held' END
            FROM upd JOIN unnest($48::uuid[], $49::int4[], $50::int4[], $51::text[], $52::text[], $53::int8[],
                $54::int8[], $55::numeric[], $56::numeric[], $57::numeric[], $58::numeric[], $59::numeric[])
                AS c(run_id, step, attempt, provider, model, input_tokens, output_tokens, input_price, cached_input_price,
                cache_write_input_price, output_price, cost_usd) ON c.run_id = upd.run_id
        ), settled AS (
            UPDATE model_calls m SET input_tokens = c.input_tokens, cached_input_tokens = c.cached, cache_write_input_tokens = c.cache_write,
                output_tokens = c.output_tokens, reasoning_tokens = c.reasoning, cost_usd = c.cost_usd, cost_source = c.cost_source,
                provider_request_id = c.provider_request_id, finished_at = now()
            FROM upd JOIN unnest($60::uuid[], $61::int4[], $62::int4[], $63::int8[], $64::int8[], $65::int8[],
                $66::int8[], $67::int8[], $68::numeric[], $69::text[], $70::text[])
                AS c(run_id, step, attempt, input_tokens, cached, cache_write, output_tokens, reasoning, cost_usd, cost_source,
                provider_request_id) ON c.run_id = upd.run_id
            WHERE m.run_id = c.run_id AND m.step = c.step AND m.attempt = c.attempt
        ), kept AS (
            INSERT INTO provider_continuations (run_id, step, bytes)
            SELECT c.run_id, c.step, c.bytes
            FROM upd JOIN unnest($71::uuid[], $72::int4[], $73::bytea[]) AS c(run_id, step, bytes) ON c.run_id = upd.run_id
        ), dropped AS (
            DELETE FROM provider_continuations c USING upd WHERE c.run_id = upd.run_id AND upd.is_over
        ), ins AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT num.session_id, num.base + ev.k, ev.run_id, ev.type, ev.schema_version, ev.body
            FROM num JOIN ev ON ev.run_id = num.run_id
        )
        SELECT upd.run_id, upd.top AS "last_sequence!" FROM upd
        "#,
        &runs.run_id,
        &runs.owner,
        &runs.epoch,
        &runs.appends,
        &runs.new_status as &[Option<String>],
        &runs.step_count,
        &runs.model_calls,
        &runs.tool_calls,
        &runs.input_tokens,
        &runs.cached_input_tokens,
        &runs.cache_write_input_tokens,
        &runs.output_tokens,
        &runs.reasoning_tokens,
        &runs.cost_usd as &[Option<Decimal>],
        &runs.cancel_observed,
        &runs.failure_reason as &[Option<String>],
        &runs.failure_message as &[Option<String>],
        &runs.failure_step as &[Option<i32>],
        &runs.failure_class as &[Option<String>],
        &event_runs,
        &types,
        &versions,
        &bodies,
        &calls.new.run_id,
        &calls.new.id,
        &calls.new.step,
        &calls.new.index,
        &calls.new.call_id,
        &calls.new.tool_name,
        &calls.new.tool_version,
        &calls.new.schema_sha256,
        &calls.new.arguments,
        &calls.new.side_effect,
        &calls.new.idempotency,
        &calls.new.key,
        &calls.new.status,
        &calls.moved.run_id,
        &calls.moved.id,
        &calls.moved.status,
        &calls.moved.effect_sent,
        &calls.artifacts.run_id,
        &calls.artifacts.id,
        &calls.artifacts.name,
        &calls.artifacts.media_type,
        &calls.artifacts.sha256,
        &calls.artifacts.size_bytes,
        &runs.events,
        &model.started.run_id,
        &model.started.step,
        &model.started.attempt,
        &model.started.provider,
        &model.started.model,
        &model.started.input_tokens,
        &model.started.output_tokens,
        &model.started.input_price as &[Option<Decimal>],
        &model.started.cached_input_price as &[Option<Decimal>],
        &model.started.cache_write_input_price as &[Option<Decimal>],
        &model.started.output_price as &[Option<Decimal>],
        &model.started.cost_usd as &[Option<Decimal>],
        &model.settled.run_id,
        &model.settled.step,
        &model.settled.attempt,
        &model.settled.input_tokens,
        &model.settled.cached_input_tokens,
        &model.settled.cache_write_input_tokens,
        &model.settled.output_tokens,
        &model.settled.reasoning_tokens,
        &model.settled.cost_usd as &[Option<Decimal>],
        &model.settled.cost_source,
        &model.settled.provider_request_id as &[Option<String>],
        &model.continuations.run_id,
        &model.continuations.step,
        &model.continuations.bytes,
    )
    .fetch_all(database)
    .await?;
    Ok(written.into_iter().map(|row| Appended { run_id: row.run_id, last_sequence: row.last_sequence }).collect())
}

/// Of writes whose answers were lost and whose repetition wrote nothing: those that had been committed the first time. The
/// rest is fenced.
pub(in crate::execution) async fn committed_before(pool: &PgPool, writes: &[Fence]) -> Result<Vec<Appended>, sqlx::Error> {
    let ids: Vec<Uuid> = writes.iter().map(|write| write.run_id).collect();
    let states = sqlx::query!(
        r#"
        SELECT r.id, r.lease_epoch, r.appends, s.last_sequence
        FROM runs r JOIN sessions s ON s.id = r.session_id
        WHERE r.id = ANY($1)
        "#,
        &ids,
    )
    .fetch_all(pool)
    .await?;
    let ours = states.into_iter().filter(|state| {
        let is_it = |write: &Fence| write.epoch == state.lease_epoch && write.appends + 1 == state.appends;
        writes.iter().any(|write| write.run_id == state.id && is_it(write))
    });
    Ok(ours.map(|state| Appended { run_id: state.id, last_sequence: state.last_sequence }).collect())
}

/// The rows as `unnest` takes them: arrays of one length (a shorter one would be padded with nulls and switch a guard off).
#[derive(Default)]
struct Columns {
    run_id: Vec<Uuid>,
    owner: Vec<Uuid>,
    epoch: Vec<i32>,
    appends: Vec<i32>,
    new_status: Vec<Option<String>>,
    step_count: Vec<i32>,
    model_calls: Vec<i32>,
    tool_calls: Vec<i32>,
    input_tokens: Vec<i64>,
    cached_input_tokens: Vec<i64>,
    cache_write_input_tokens: Vec<i64>,
    output_tokens: Vec<i64>,
    reasoning_tokens: Vec<i64>,
    cost_usd: Vec<Option<Decimal>>,
    cancel_observed: Vec<bool>,
    failure_reason: Vec<Option<String>>,
    failure_message: Vec<Option<String>>,
    failure_step: Vec<Option<i32>>,
    failure_class: Vec<Option<String>>,
    events: Vec<i32>,
}

impl Columns {
    fn of(rows: &[AppendRow]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.push(row);
        }
        columns
    }

    fn push(&mut self, row: &AppendRow) {
        let failed = match &row.ending {
            Some(Ending::Failed { failure, class }) => Some((failure, class)),
            _ => None,
        };
        self.run_id.push(row.fence.run_id);
        self.owner.push(row.fence.owner);
        self.epoch.push(row.fence.epoch);
        self.appends.push(row.fence.appends);
        self.new_status.push(row.ending.as_ref().map(|ending| ending.status().to_string()));
        self.step_count.push(row.step_count);
        self.model_calls.push(row.usage.model_calls);
        self.tool_calls.push(row.usage.tool_calls);
        self.input_tokens.push(row.usage.input_tokens);
        self.cached_input_tokens.push(row.usage.cached_input_tokens);
        self.cache_write_input_tokens.push(row.usage.cache_write_input_tokens);
        self.output_tokens.push(row.usage.output_tokens);
        self.reasoning_tokens.push(row.usage.reasoning_tokens);
        self.cost_usd.push(row.usage.cost_usd);
        self.cancel_observed.push(row.cancel_observed);
        self.failure_reason.push(failed.map(|(failure, _)| failure.reason.to_string()));
        self.failure_message.push(failed.map(|(failure, _)| failure.message.clone()));
        self.failure_step.push(failed.and_then(|(failure, _)| failure.step).and_then(|step| i32::try_from(step).ok()));
        self.failure_class.push(failed.and_then(|(_, class)| class.clone()));
        self.events.push(i32::try_from(row.events.len()).unwrap_or(i32::MAX));
    }
}
