//! The rows of sessions.

use serde_json::value::RawValue;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::db;
use crate::error::Error;
use crate::events::{Event, SessionCreated};
use crate::idempotency::{IdempotencyKey, KeyTtl};
use crate::page::PageRequest;
use crate::principal::Principal;
use crate::sessions::view::{SessionStatus, SessionView};

pub(super) struct NewSession<'a> {
    pub(super) id: Uuid,
    pub(super) agent_id: &'a str,
    pub(super) agent_version: &'a str,
    pub(super) metadata: &'a str,
    pub(super) key: Option<&'a IdempotencyKey>,
    pub(super) key_ttl: KeyTtl,
}

/// Creates a session with its first event and its key, all or nothing. False: the key exists.
pub(super) async fn create(pool: &PgPool, principal: &Principal, new: &NewSession<'_>) -> Result<bool, sqlx::Error> {
    let event =
        Event::SessionCreated(SessionCreated { agent_id: new.agent_id.to_owned(), agent_version: new.agent_version.to_owned() });
    let row = sqlx::query!(
        r#"
        WITH key AS (
            -- Waits for a concurrent request with the same key, and then inserts nothing.
            INSERT INTO idempotency_keys (tenant_id, principal_id, key, request_sha256, session_id, expires_at)
            SELECT $2::text, $3::text, $8::text, $9::bytea, $1::uuid, now() + $10::float8 * interval '1 second'
            WHERE $8::text IS NOT NULL
            ON CONFLICT (tenant_id, principal_id, key) DO NOTHING
            RETURNING session_id
        ), ses AS (
            INSERT INTO sessions (id, tenant_id, principal_id, agent_id, agent_version, metadata, last_sequence)
            SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, 1
            WHERE $8::text IS NULL OR EXISTS (SELECT 1 FROM key)
            RETURNING id
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT ses.id, 1, NULL, 'session.created', 1, $7::text FROM ses
        )
        SELECT EXISTS (SELECT 1 FROM ses) AS "created!"
        "#,
        new.id,
        principal.tenant_id,
        principal.principal_id,
        new.agent_id,
        new.agent_version,
        new.metadata,
        event.body(),
        new.key.map(IdempotencyKey::key),
        new.key.map(IdempotencyKey::request_sha256),
        new.key_ttl.0.as_secs_f64(),
    )
    .fetch_one(pool)
    .await?;
    Ok(row.created)
}

/// A lost answer of [`create`], repeated with the same identifier, shows as this.
pub(super) fn is_repeat(error: &sqlx::Error) -> bool {
    db::constraint(error) == Some("sessions_pkey")
}

/// The session, where this principal may see it.
pub(super) async fn find(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<SessionView>, Error> {
    let row = sqlx::query_as!(
        Row,
        r#"
        SELECT s.id, s.principal_id, s.agent_id, s.agent_version, s.status, s.title, s.metadata, s.created_at, s.updated_at,
            (SELECT r.id FROM runs r WHERE r.session_id = s.id AND r.finished_at IS NULL) AS active_run_id,
            (SELECT r.id FROM runs r WHERE r.session_id = s.id ORDER BY r.created_at DESC, r.id DESC LIMIT 1) AS last_run_id
        FROM sessions s
        WHERE s.id = $1 AND s.tenant_id = $2 AND ($3::text IS NULL OR s.principal_id = $3)
        "#,
        id,
        principal.tenant_id,
        principal.reads_owner(),
    )
    .fetch_optional(pool)
    .await?;
    row.map(Row::into_view).transpose()
}

/// Newest first; one row more than the page, where there is one.
pub(super) async fn list(pool: &PgPool, principal: &Principal, page: &PageRequest) -> Result<Vec<SessionView>, Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"
        SELECT s.id, s.principal_id, s.agent_id, s.agent_version, s.status, s.title, s.metadata, s.created_at, s.updated_at,
            (SELECT r.id FROM runs r WHERE r.session_id = s.id AND r.finished_at IS NULL) AS active_run_id,
            (SELECT r.id FROM runs r WHERE r.session_id = s.id ORDER BY r.created_at DESC, r.id DESC LIMIT 1) AS last_run_id
        FROM sessions s
        WHERE s.tenant_id = $1 AND ($2::text IS NULL OR s.principal_id = $2)
          AND ($3::timestamptz IS NULL OR (s.created_at, s.id) < ($3, $4::uuid))
        ORDER BY s.created_at DESC, s.id DESC
        LIMIT $5
        "#,
        principal.tenant_id,
        principal.reads_owner(),
        page.cursor.map(|cursor| cursor.created_at),
        page.cursor.map(|cursor| cursor.id),
        page.limit() + 1,
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(Row::into_view).collect()
}

/// What a stream of a session needs to know before its first byte.
pub(super) struct Extent {
    /// Of the newest event.
    pub(super) head: i64,
    pub(super) is_closed: bool,
}

/// How far the session's log goes, where this principal may read it.
pub(super) async fn extent(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<Extent>, Error> {
    let extent = sqlx::query_as!(
        Extent,
        r#"
        SELECT s.last_sequence AS head, s.status = 'CLOSED' AS "is_closed!"
        FROM sessions s
        WHERE s.id = $1 AND s.tenant_id = $2 AND ($3::text IS NULL OR s.principal_id = $3)
        "#,
        id,
        principal.tenant_id,
        principal.reads_owner(),
    )
    .fetch_optional(pool)
    .await?;
    Ok(extent)
}

/// Whether the principal owns the session, and whether it takes messages: the status, where it does.
pub(crate) async fn owned_status(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<SessionStatus>, Error> {
    let status = sqlx::query_scalar!(
        "SELECT s.status FROM sessions s WHERE s.id = $1 AND s.tenant_id = $2 AND s.principal_id = $3",
        id,
        principal.tenant_id,
        principal.principal_id,
    )
    .fetch_optional(pool)
    .await?;
    status.map(|status| status.parse().map_err(Error::internal)).transpose()
}

/// The agent of the principal's own session, and its version.
pub(crate) async fn agent_of(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<(String, String)>, Error> {
    let session = sqlx::query!(
        "SELECT s.agent_id, s.agent_version FROM sessions s WHERE s.id = $1 AND s.tenant_id = $2 AND s.principal_id = $3",
        id,
        principal.tenant_id,
        principal.principal_id,
    )
    .fetch_optional(pool)
    .await?;
    Ok(session.map(|session| (session.agent_id, session.agent_version)))
}

struct Row {
    id: Uuid,
    principal_id: String,
    agent_id: String,
    agent_version: String,
    status: String,
    title: Option<String>,
    metadata: String,
    active_run_id: Option<Uuid>,
    last_run_id: Option<Uuid>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

impl Row {
    fn into_view(self) -> Result<SessionView, Error> {
        Ok(SessionView {
            id: self.id,
            principal_id: self.principal_id,
            agent_id: self.agent_id,
            agent_version: self.agent_version,
            status: self.status.parse().map_err(Error::internal)?,
            title: self.title,
            metadata: RawValue::from_string(self.metadata).map_err(Error::internal)?,
            active_run_id: self.active_run_id,
            last_run_id: self.last_run_id,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}
