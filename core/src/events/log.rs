//! Reading the log. Writing it is part of each statement that changes a state: an event and its state commit together.

use futures::future::BoxFuture;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::db::{self, OwnConnections};
use crate::events::event::{DecodeError, Event};
#[cfg(test)]
use crate::events::simulation::SimulatedLog;

/// Rows of a page of the log.
pub(crate) const PAGE_ROWS: i64 = 500;

/// Bytes of bodies after which a page ends early, whatever the size of single events. A replay holds two: one that it writes, one
/// that it reads.
const PAGE_BYTES: i64 = 512 * 1024;

/// A row of the log, its body as it goes over the wire.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    pub sequence: i64,
    pub run_id: Option<Uuid>,
    pub event_type: String,
    pub schema_version: i16,
    pub created_at: OffsetDateTime,
    pub body: String,
}

impl StoredEvent {
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(&self) -> Result<Event, DecodeError> {
        Event::decode(&self.event_type, self.schema_version, &self.body)
    }
}

/// The log, as the hub and the streams read it.
#[derive(Debug, Clone)]
pub(crate) enum Log {
    Database(PgPool),
    /// For replays.
    Apart(OwnConnections),
    /// One that answers when a schedule says so.
    #[cfg(test)]
    Simulated(SimulatedLog),
}

/// A thousand clients that return after a deploy must not exhaust the pool: so many pages are read at once.
const REPLAYS_MAX: usize = 4;

/// Who reads them, as `pg_stat_activity` shows it.
const REPLAYS: &str = "baton replays";

impl Log {
    /// The log for replays, whose pages come one after the other: over a few connections of their own.
    pub(crate) fn apart(pool: &PgPool) -> Self {
        let options = PgConnectOptions::clone(&pool.connect_options()).application_name(REPLAYS);
        Self::Apart(OwnConnections::new(options, REPLAYS_MAX))
    }

    /// A page of what follows a sequence. Boxed, as the other: who waits for news by the thousand holds no room for a read.
    pub(crate) fn read_after(&self, session_id: Uuid, after: i64) -> BoxFuture<'_, Result<LogPage, sqlx::Error>> {
        match self {
            Self::Database(pool) => Box::pin(read_after(pool, session_id, after, PAGE_ROWS)),
            Self::Apart(connections) => Box::pin(async move {
                let page = async || {
                    let mut connection = connections.lend().await?;
                    let page = read_after(&mut *connection, session_id, after, PAGE_ROWS).await;
                    connection.answered(page)
                };
                db::repeat_when_lost(page).await // those that were kept may be gone, all of them
            }),
            #[cfg(test)]
            Self::Simulated(log) => Box::pin(log.read_after(after)),
        }
    }

    /// The newest sequence of each session; nothing of one that is not there.
    pub(crate) fn heads<'a>(&'a self, session_ids: &'a [Uuid]) -> BoxFuture<'a, Result<Vec<(Uuid, i64)>, sqlx::Error>> {
        match self {
            Self::Database(pool) => Box::pin(heads(pool, session_ids)),
            Self::Apart(connections) => Box::pin(async move {
                let heads = async || {
                    let mut connection = connections.lend().await?;
                    let heads = heads(&mut *connection, session_ids).await;
                    connection.answered(heads)
                };
                db::repeat_when_lost(heads).await
            }),
            #[cfg(test)]
            Self::Simulated(log) => Box::pin(log.heads()),
        }
    }
}

/// A page of the log.
#[derive(Debug)]
pub(crate) struct LogPage {
    pub(crate) events: Vec<StoredEvent>,
    /// Nothing followed when it was read.
    pub(crate) is_last: bool,
}

/// What follows a sequence, in order: at most `limit` rows, fewer where they are large, at least one where there is one.
pub(crate) async fn read_after(
    database: impl PgExecutor<'_>,
    session_id: Uuid,
    after: i64,
    limit: i64,
) -> Result<LogPage, sqlx::Error> {
    let limit = limit.min(PAGE_ROWS);
    let events = sqlx::query_as!(
        StoredEvent,
        r#"
        SELECT e.sequence, e.run_id, e.type AS event_type, e.schema_version, e.created_at, e.body
        FROM events e
        WHERE e.session_id = $1 AND e.sequence > $2 AND e.sequence <= (
            -- Sizes are summed up apart: a window would copy every body. octet_length reads the stored size; none is fetched for it.
            SELECT max(p.sequence)
            FROM (
                SELECT s.sequence, sum(s.bytes) OVER (ORDER BY s.sequence ROWS UNBOUNDED PRECEDING) - s.bytes AS bytes_before
                FROM (
                    SELECT e.sequence, octet_length(e.body) AS bytes
                    FROM events e
                    WHERE e.session_id = $1 AND e.sequence > $2
                    ORDER BY e.sequence
                    LIMIT $3
                ) s
            ) p
            WHERE p.bytes_before < $4
        )
        ORDER BY e.sequence
        "#,
        session_id,
        after,
        limit,
        PAGE_BYTES,
    )
    .fetch_all(database)
    .await?;
    let bytes: usize = events.iter().map(|event| event.body.len()).sum();
    let is_last = (events.len() as i64) < limit && (bytes as i64) < PAGE_BYTES;
    Ok(LogPage { events, is_last })
}

/// The session's transcript before a sequence, in order, as far back as `bytes_max` of bodies reach.
pub(crate) async fn read_transcript(
    pool: &PgPool,
    session_id: Uuid,
    before: i64,
    bytes_max: i64,
) -> Result<Vec<StoredEvent>, sqlx::Error> {
    /// Events of a transcript at most, however small they are.
    const ROWS_MAX: i64 = 4_000;
    sqlx::query_as!(
        StoredEvent,
        r#"
        SELECT p.sequence AS "sequence!", p.run_id, p.type AS "event_type!", p.schema_version AS "schema_version!",
            p.created_at AS "created_at!", p.body AS "body!"
        FROM (
            SELECT e.sequence, e.run_id, e.type, e.schema_version, e.created_at, e.body,
                sum(octet_length(e.body)) OVER (ORDER BY e.sequence DESC) AS bytes
            FROM events e
            WHERE e.session_id = $1 AND e.sequence < $2
              AND e.type IN ('user.message.created', 'model.response.completed', 'tool.call.completed', 'tool.call.failed',
                  'tool.call.denied', 'tool.call.uncertain', 'run.waiting_for_user', 'user.input.delivered',
                  'run.completed', 'run.failed', 'run.cancelled')
            ORDER BY e.sequence DESC
            LIMIT $3
        ) p
        WHERE p.bytes <= $4
        ORDER BY p.sequence
        "#,
        session_id,
        before,
        ROWS_MAX,
        bytes_max,
    )
    .fetch_all(pool)
    .await
}

async fn heads(database: impl PgExecutor<'_>, session_ids: &[Uuid]) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows = sqlx::query!("SELECT s.id, s.last_sequence FROM sessions s WHERE s.id = ANY($1)", session_ids)
        .fetch_all(database)
        .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.last_sequence)).collect())
}
