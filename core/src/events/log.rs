//! Reading the log. Writing it is part of each statement that changes a state: an event and its state commit together.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

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
    /// One that answers when a schedule says so.
    #[cfg(test)]
    Simulated(SimulatedLog),
}

impl Log {
    /// A page of what follows a sequence.
    pub(crate) async fn read_after(&self, session_id: Uuid, after: i64) -> Result<LogPage, sqlx::Error> {
        match self {
            Self::Database(pool) => read_after(pool, session_id, after, PAGE_ROWS).await,
            #[cfg(test)]
            Self::Simulated(log) => log.read_after(after).await,
        }
    }

    /// The newest sequence of each session; nothing of one that is not there.
    pub(crate) async fn heads(&self, session_ids: &[Uuid]) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
        match self {
            Self::Database(pool) => heads(pool, session_ids).await,
            #[cfg(test)]
            Self::Simulated(log) => log.heads().await,
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
pub(crate) async fn read_after(pool: &PgPool, session_id: Uuid, after: i64, limit: i64) -> Result<LogPage, sqlx::Error> {
    let limit = limit.min(PAGE_ROWS);
    let events = sqlx::query_as!(
        StoredEvent,
        r#"
        SELECT p.sequence AS "sequence!", p.run_id, p.type AS "event_type!", p.schema_version AS "schema_version!",
            p.created_at AS "created_at!", p.body AS "body!"
        FROM (
            SELECT e.sequence, e.run_id, e.type, e.schema_version, e.created_at, e.body,
                -- octet_length reads the stored size; no body is fetched to be counted.
                sum(octet_length(e.body)) OVER (ORDER BY e.sequence) - octet_length(e.body) AS bytes_before
            FROM events e
            WHERE e.session_id = $1 AND e.sequence > $2
            ORDER BY e.sequence
            LIMIT $3
        ) p
        WHERE p.bytes_before < $4
        ORDER BY p.sequence
        "#,
        session_id,
        after,
        limit,
        PAGE_BYTES,
    )
    .fetch_all(pool)
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

async fn heads(pool: &PgPool, session_ids: &[Uuid]) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows =
        sqlx::query!("SELECT s.id, s.last_sequence FROM sessions s WHERE s.id = ANY($1)", session_ids).fetch_all(pool).await?;
    Ok(rows.into_iter().map(|row| (row.id, row.last_sequence)).collect())
}
