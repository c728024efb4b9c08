//! What people and the agent have said to each other in a session, read from its log.

use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::closed_set::closed_set;
use crate::content::{ContentBlock, text_content};
use crate::error::Error;
use crate::events::{Event, StoredEvent};
use crate::page::{Keyset, Page, PageRequest, SequenceCursor};
use crate::principal::Principal;

/// Bytes of bodies after which a page ends early: what a request holds at once, whatever people have said.
const PAGE_BYTES: i64 = 1024 * 1024;

closed_set! {
    TranscriptRole {
        User = "user",
        Assistant = "assistant",
    }
}

closed_set! {
    TranscriptKind {
        Message = "message",
        /// The run waits for the user to answer it.
        Question = "question",
        Answer = "answer",
    }
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TranscriptItem {
    /// Of the event; the order of a transcript.
    #[schema(minimum = 1)]
    pub sequence: i64,
    pub run_id: Uuid,
    pub role: TranscriptRole,
    pub kind: TranscriptKind,
    pub content: Vec<ContentBlock>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// A page of the transcript, ascending: at most as many items as asked for, fewer where they are large, at least one where
/// there is one. None of a session that the principal may not read, and nothing that says so.
pub(super) async fn read(
    pool: &PgPool,
    principal: &Principal,
    session_id: Uuid,
    request: &PageRequest<SequenceCursor>,
) -> Result<Page<TranscriptItem>, Error> {
    let after = request.cursor.map_or(0, |cursor| cursor.0);
    let rows = sqlx::query!(
        r#"
        SELECT p.sequence AS "sequence!", p.run_id, p.type AS "event_type!", p.schema_version AS "schema_version!",
            p.created_at AS "created_at!", p.body AS "body!", p.found AS "found!"
        FROM (
            SELECT e.sequence, e.run_id, e.type, e.schema_version, e.created_at, e.body,
                -- octet_length reads the stored size; no body is fetched to be counted.
                sum(octet_length(e.body)) OVER (ORDER BY e.sequence) - octet_length(e.body) AS bytes_before,
                row_number() OVER (ORDER BY e.sequence) AS place, count(*) OVER () AS found
            FROM (
                SELECT e.sequence, e.run_id, e.type, e.schema_version, e.created_at, e.body
                FROM events e JOIN sessions s ON s.id = e.session_id
                WHERE s.id = $1 AND s.tenant_id = $2 AND ($3::text IS NULL OR s.principal_id = $3)
                  AND e.session_id = $1 AND e.sequence > $4
                  AND e.type IN ('user.message.created', 'assistant.message.completed', 'run.waiting_for_user', 'user.input.delivered')
                ORDER BY e.sequence
                LIMIT $5::int8 + 1 -- the extra row says that there is another page
            ) e
        ) p
        WHERE p.place <= $5 AND p.bytes_before < $6
        ORDER BY p.sequence
        "#,
        session_id,
        principal.tenant_id,
        principal.reads_owner(),
        after,
        request.limit(),
        PAGE_BYTES,
    )
    .fetch_all(pool)
    .await?;
    let found = rows.first().map_or(0, |row| row.found);
    let is_last = i64::try_from(rows.len()).is_ok_and(|shown| shown == found);
    let next_cursor = rows.last().filter(|_| !is_last).map(|row| SequenceCursor(row.sequence).encode());
    let events = rows.into_iter().map(|row| StoredEvent {
        sequence: row.sequence,
        run_id: row.run_id,
        event_type: row.event_type,
        schema_version: row.schema_version,
        created_at: row.created_at,
        body: row.body,
    });
    Ok(Page { items: events.map(|event| item(&event)).collect::<Result<_, _>>()?, next_cursor })
}

fn item(event: &StoredEvent) -> Result<TranscriptItem, Error> {
    let (role, kind, content) = match event.decode().map_err(Error::internal)? {
        Event::UserMessageCreated(message) => (TranscriptRole::User, TranscriptKind::Message, message.content),
        Event::AssistantMessageCompleted(message) => (TranscriptRole::Assistant, TranscriptKind::Message, message.content),
        Event::RunWaitingForUser(asked) => (TranscriptRole::Assistant, TranscriptKind::Question, text_content(asked.question)),
        Event::UserInputDelivered(input) => (TranscriptRole::User, TranscriptKind::Answer, input.content),
        other => return Err(Error::internal(format!("`{}` is no part of a transcript", other.event_type()))),
    };
    let run_id = event.run_id.ok_or_else(|| Error::internal("a message without a run"))?;
    Ok(TranscriptItem { sequence: event.sequence, run_id, role, kind, content, created_at: event.created_at })
}
