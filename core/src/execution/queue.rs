//! The queue is the table of runs. A claim takes due runs, with their new epoch and the events that say so, in one statement.

use std::time::Duration;

use rust_decimal::Decimal;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::Error;
use crate::execution::lease::Lease;
use crate::execution::state::Totals;
use crate::notify::{Hint, Notifier};
use crate::principal::Principal;
use crate::runs::{LimitsView, Priority, Usage};
use crate::scope::Scope;

/// Free slots: floors of each class, and shared ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// In the order of [`Priority::ALL`].
    pub floors: [i32; 3],
    pub shared: i32,
}

impl Room {
    pub fn is_empty(&self) -> bool {
        self.floors.iter().all(|floor| *floor == 0) && self.shared == 0
    }

    /// Some class has no slot left: what is due may have been passed over.
    pub fn is_tight(&self) -> bool {
        self.floors.contains(&0) && self.shared == 0
    }
}

/// A run that this worker has just become the owner of.
#[derive(Debug)]
pub struct ClaimedRun {
    pub lease: Lease,
    /// Who submitted it, with the scopes of that moment.
    pub principal: Principal,
    pub agent_id: String,
    pub agent_version: String,
    pub priority: Priority,
    pub traceparent: Option<String>,
    pub limits: LimitsView,
    /// Until the deadline, by the database's clock; zero where it has passed.
    pub deadline_in: Duration,
    pub first_sequence: i64,
    /// The newest event of the session: the second of the two that the claim wrote.
    pub last_sequence: i64,
    pub cancel_requested: bool,
    /// Of the row, for whoever cannot read the log.
    pub totals: Totals,
}

#[derive(Debug, Clone)]
pub struct Queue {
    pool: PgPool,
    notifier: Notifier,
    tenant_max_running: Option<i32>,
}

impl Queue {
    pub fn new(pool: PgPool, notifier: Notifier, tenant_max_running: Option<u16>) -> Self {
        Self { pool, notifier, tenant_max_running: tenant_max_running.map(i32::from) }
    }

    /// Takes due runs: up to each class's free floor, then the shared slots in order of class; within a class one for each
    /// waiting tenant in turn. May take less than there is: ask again after a claim that got something and left room.
    ///
    /// A claim whose answer is lost is not repeated, since it would take more: the heartbeat shows what it took.
    ///
    /// # Errors
    /// The database's.
    pub async fn claim(&self, worker_id: Uuid, room: Room) -> Result<Vec<ClaimedRun>, Error> {
        let classes: Vec<String> = Priority::ALL.iter().map(ToString::to_string).collect();
        let rows = sqlx::query_as!(
            Row,
            r#"
            WITH RECURSIVE cls AS MATERIALIZED (
                -- A dead or unknown worker gets nothing.
                SELECT c.class, c.room, c.no, c.room + $4::int4 AS most
                FROM unnest($2::text[], $3::int4[]) WITH ORDINALITY AS c(class, room, no)
                WHERE c.room + $4::int4 > 0 AND EXISTS (SELECT 1 FROM workers w WHERE w.id = $1::uuid AND NOT w.dead)
            ), waiting(no, class, most, tenant) AS (
                -- A loose index scan: one probe of runs_queued for each waiting tenant, in an order that no other index has.
                SELECT c.no, c.class, c.most,
                    (SELECT r.tenant_id FROM runs r WHERE r.status = 'QUEUED' AND r.scheduled_for IS NULL AND r.priority = c.class
                     ORDER BY r.tenant_id, r.created_at NULLS FIRST, r.id NULLS FIRST LIMIT 1)
                FROM cls c
                UNION ALL
                SELECT w.no, w.class, w.most,
                    (SELECT r.tenant_id FROM runs r WHERE r.status = 'QUEUED' AND r.scheduled_for IS NULL AND r.priority = w.class
                     AND r.tenant_id > w.tenant ORDER BY r.tenant_id, r.created_at NULLS FIRST, r.id NULLS FIRST LIMIT 1)
                FROM waiting w WHERE w.tenant IS NOT NULL
            ), tenants AS MATERIALIZED (
                SELECT t.tenant, CASE WHEN $5::int4 IS NULL THEN 1000000
                    ELSE $5::int4 - (SELECT count(*) FROM (
                        SELECT 1 FROM runs x WHERE x.status = 'RUNNING' AND x.tenant_id = t.tenant LIMIT greatest($5::int4, 0)) y) END AS free
                FROM (SELECT DISTINCT w.tenant FROM waiting w WHERE w.tenant IS NOT NULL) t
            ), share AS (
                -- How deep to look into each tenant's queue: enough to fill the room twice, bounded when very many tenants wait.
                SELECT w.no, w.class, w.tenant, t.free,
                    least(2 * w.most, greatest(4, 8 * w.most / count(*) OVER (PARTITION BY w.no)), t.free) AS depth
                FROM waiting w JOIN tenants t ON t.tenant = w.tenant WHERE t.free > 0
            ), cand AS MATERIALIZED (
                SELECT n.id, n.no, n.ord, random() AS tie FROM (
                    SELECT q.id, h.no, q.ord, h.free, row_number() OVER (PARTITION BY h.tenant ORDER BY h.no, q.ord) AS nth
                    FROM share h CROSS JOIN LATERAL (
                        SELECT i.id, row_number() OVER (ORDER BY i.created_at NULLS FIRST, i.id NULLS FIRST) AS ord FROM (
                            SELECT r.id, r.created_at FROM runs r
                            WHERE r.status = 'QUEUED' AND r.scheduled_for IS NULL AND r.priority = h.class AND r.tenant_id = h.tenant
                            ORDER BY r.created_at NULLS FIRST, r.id NULLS FIRST LIMIT h.depth) i) q) n
                WHERE n.nth <= n.free
            ), floors AS MATERIALIZED (
                -- LIMIT above the lock: locks no more than it takes.
                SELECT f.* FROM cls CROSS JOIN LATERAL (
                    SELECT x.* FROM (SELECT c.id FROM cand c WHERE c.no = cls.no ORDER BY c.ord, c.tie) o
                    CROSS JOIN LATERAL (SELECT r.id, r.session_id, r.started_at, r.resume_after FROM runs r
                        WHERE r.id = o.id AND r.status = 'QUEUED' AND r.scheduled_for IS NULL FOR NO KEY UPDATE SKIP LOCKED) x
                    LIMIT cls.room) f
            ), lent AS MATERIALIZED (
                -- SKIP LOCKED does not skip our own locks: what the floors took is left out by name.
                SELECT x.* FROM (SELECT c.id FROM cand c WHERE c.id NOT IN (SELECT f.id FROM floors f) ORDER BY c.no, c.ord, c.tie) o
                CROSS JOIN LATERAL (SELECT r.id, r.session_id, r.started_at, r.resume_after FROM runs r
                    WHERE r.id = o.id AND r.status = 'QUEUED' AND r.scheduled_for IS NULL FOR NO KEY UPDATE SKIP LOCKED) x
                LIMIT $4::int4
            ), picked AS MATERIALIZED (
                SELECT * FROM floors UNION ALL SELECT * FROM lent
            ), ses AS MATERIALIZED (
                -- Sessions after runs, in order of id. Through arrays, of which the planner expects ten rows: of what was picked it
                -- expects thousands, and would read whole tables for them.
                SELECT s.id, p.run_id, p.started_at, p.resume_after
                FROM unnest(ARRAY(SELECT id FROM picked), ARRAY(SELECT session_id FROM picked), ARRAY(SELECT started_at FROM picked),
                    ARRAY(SELECT resume_after FROM picked)) AS p(run_id, session_id, started_at, resume_after)
                JOIN sessions s ON s.id = p.session_id ORDER BY s.id FOR NO KEY UPDATE OF s
            ), num AS (
                UPDATE sessions s SET last_sequence = s.last_sequence + 2 FROM ses WHERE s.id = ses.id
                RETURNING ses.run_id, ses.started_at, ses.resume_after, s.last_sequence
            ), upd AS (
                UPDATE runs r SET status = 'RUNNING', lease_owner = $1::uuid, lease_epoch = r.lease_epoch + 1,
                    started_at = coalesce(r.started_at, now()), resume_after = NULL, status_since = now(), updated_at = now()
                FROM num WHERE r.id = num.run_id
                RETURNING r.id AS run_id, r.session_id, r.tenant_id, r.principal_id, r.scopes, r.agent_id, r.agent_version,
                    r.priority, r.traceparent, r.max_steps, r.max_model_calls, r.max_tool_calls, r.max_input_tokens,
                    r.max_output_tokens, r.max_cost_usd, r.deadline_at, r.first_sequence, num.last_sequence, r.lease_epoch, r.appends,
                    r.step_count, r.input_tokens, r.cached_input_tokens, r.cache_write_input_tokens, r.output_tokens,
                    r.reasoning_tokens, r.model_calls, r.tool_calls, r.cost_usd,
                    num.started_at IS NULL AS first_start, num.resume_after,
                    r.cancel_requested_at IS NOT NULL AS cancel_requested,
                    extract(epoch FROM r.deadline_at - now())::float8 AS deadline_in_seconds
            ), ev AS (
                INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
                SELECT u.session_id, u.last_sequence - 1 + e.k, u.run_id, e.type, 1, e.body
                FROM upd u CROSS JOIN LATERAL (VALUES
                    (0, 'run.claimed', '{}'),
                    (1, CASE WHEN u.first_start THEN 'run.started' ELSE 'run.resumed' END,
                        CASE WHEN u.first_start THEN '{}' ELSE '{"after":"' || u.resume_after || '"}' END)) AS e(k, type, body)
            )
            SELECT upd.run_id, upd.session_id, upd.tenant_id, upd.principal_id, upd.scopes, upd.agent_id, upd.agent_version,
                upd.priority, upd.traceparent, upd.max_steps, upd.max_model_calls, upd.max_tool_calls, upd.max_input_tokens,
                upd.max_output_tokens, upd.max_cost_usd, upd.deadline_at, upd.first_sequence, upd.last_sequence, upd.lease_epoch,
                upd.appends, upd.step_count, upd.input_tokens, upd.cached_input_tokens, upd.cache_write_input_tokens,
                upd.output_tokens, upd.reasoning_tokens, upd.model_calls, upd.tool_calls, upd.cost_usd,
                upd.cancel_requested AS "cancel_requested!", upd.deadline_in_seconds AS "deadline_in_seconds!"
            FROM upd
            "#,
            worker_id,
            &classes,
            &room.floors,
            room.shared,
            self.tenant_max_running,
        )
        .fetch_all(&self.pool)
        .await?;
        let claimed: Vec<ClaimedRun> = rows.into_iter().map(|row| row.into_claimed(worker_id)).collect::<Result<_, _>>()?;
        self.notifier.send_soon(
            claimed.iter().map(|run| Hint::Events { session_id: run.lease.session_id(), sequence: run.last_sequence }),
        );
        Ok(claimed)
    }

    /// Puts runs back that a worker owns and does not execute: no loss counted, due after `delay`. Those that are not its own
    /// any more are left alone. How many went back.
    ///
    /// # Errors
    /// The database's.
    pub async fn release(&self, worker_id: Uuid, runs: &[(Uuid, i32)], delay: Duration) -> Result<usize, Error> {
        if runs.is_empty() {
            return Ok(0);
        }
        let (ids, epochs): (Vec<Uuid>, Vec<i32>) = runs.iter().copied().unzip();
        let released = sqlx::query!(
            r#"
            WITH own AS MATERIALIZED (
                -- The guard, under the row's lock; runs in order of id.
                SELECT r.id AS run_id, r.session_id
                FROM runs r JOIN unnest($2::uuid[], $3::int4[]) AS w(run_id, epoch) ON w.run_id = r.id
                WHERE r.status = 'RUNNING' AND r.lease_owner = $1::uuid AND r.lease_epoch = w.epoch
                ORDER BY r.id FOR NO KEY UPDATE OF r
            ), ses AS MATERIALIZED (
                SELECT s.id, own.run_id FROM sessions s JOIN own ON own.session_id = s.id ORDER BY s.id FOR NO KEY UPDATE OF s
            ), num AS (
                UPDATE sessions s SET last_sequence = s.last_sequence + 1 FROM ses WHERE s.id = ses.id
                RETURNING ses.run_id, s.id AS session_id, s.last_sequence
            ), upd AS (
                UPDATE runs r SET status = 'QUEUED', lease_owner = NULL, resume_after = 'handed_back', status_since = now(), updated_at = now(),
                    scheduled_for = CASE WHEN $4::float8 > 0 THEN now() + $4::float8 * interval '1 second' END
                FROM num WHERE r.id = num.run_id
                RETURNING r.id AS run_id, num.session_id, num.last_sequence
            ), ev AS (
                INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
                SELECT u.session_id, u.last_sequence, u.run_id, 'run.requeued', 1, '{"cause":"handed_back"}' FROM upd u
            )
            SELECT upd.session_id, upd.last_sequence FROM upd
            "#,
            worker_id,
            &ids,
            &epochs,
            delay.as_secs_f64(),
        )
        .fetch_all(&self.pool)
        .await?;
        self.notifier.send(released.iter().map(|row| Hint::Events { session_id: row.session_id, sequence: row.last_sequence }));
        if !released.is_empty() {
            self.notifier.send([Hint::Queue]);
        }
        Ok(released.len())
    }
}

struct Row {
    run_id: Uuid,
    session_id: Uuid,
    tenant_id: String,
    principal_id: String,
    scopes: Vec<String>,
    agent_id: String,
    agent_version: String,
    priority: String,
    traceparent: Option<String>,
    max_steps: i32,
    max_model_calls: i32,
    max_tool_calls: i32,
    max_input_tokens: Option<i64>,
    max_output_tokens: Option<i64>,
    max_cost_usd: Option<Decimal>,
    deadline_at: OffsetDateTime,
    first_sequence: i64,
    last_sequence: i64,
    lease_epoch: i32,
    appends: i32,
    step_count: i32,
    input_tokens: i64,
    cached_input_tokens: i64,
    cache_write_input_tokens: i64,
    output_tokens: i64,
    reasoning_tokens: i64,
    model_calls: i32,
    tool_calls: i32,
    cost_usd: Option<Decimal>,
    cancel_requested: bool,
    deadline_in_seconds: f64,
}

impl Row {
    fn into_claimed(self, worker_id: Uuid) -> Result<ClaimedRun, Error> {
        // A scope that this build does not know authorizes nothing in it.
        let scopes = self.scopes.iter().filter_map(|scope| scope.parse::<Scope>().ok());
        Ok(ClaimedRun {
            lease: Lease::claimed(self.run_id, self.session_id, worker_id, self.lease_epoch, self.appends),
            principal: Principal {
                tenant_id: self.tenant_id,
                principal_id: self.principal_id,
                scopes: scopes.collect(),
                expires_at: None,
            },
            agent_id: self.agent_id,
            agent_version: self.agent_version,
            priority: self.priority.parse().map_err(Error::internal)?,
            traceparent: self.traceparent,
            limits: LimitsView {
                max_steps: self.max_steps,
                max_model_calls: self.max_model_calls,
                max_tool_calls: self.max_tool_calls,
                max_input_tokens: self.max_input_tokens,
                max_output_tokens: self.max_output_tokens,
                max_cost_usd: self.max_cost_usd,
                deadline_at: self.deadline_at,
            },
            deadline_in: Duration::try_from_secs_f64(self.deadline_in_seconds).unwrap_or(Duration::ZERO),
            first_sequence: self.first_sequence,
            last_sequence: self.last_sequence,
            cancel_requested: self.cancel_requested,
            totals: Totals {
                step_count: u32::try_from(self.step_count).map_err(Error::internal)?,
                usage: Usage {
                    cache_write_input_tokens: self.cache_write_input_tokens,
                    cached_input_tokens: self.cached_input_tokens,
                    cost_usd: self.cost_usd.map(|cost| cost.normalize()),
                    input_tokens: self.input_tokens,
                    model_calls: self.model_calls,
                    output_tokens: self.output_tokens,
                    reasoning_tokens: self.reasoning_tokens,
                    tool_calls: self.tool_calls,
                },
            },
        })
    }
}
