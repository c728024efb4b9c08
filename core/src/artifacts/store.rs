//! The rows of artifacts.

use serde_json::value::RawValue;
use sqlx::PgPool;
use uuid::Uuid;

use crate::artifacts::view::ArtifactView;
use crate::error::Error;
use crate::principal::Principal;

/// The artifact, where this principal may see it.
pub(super) async fn find(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<ArtifactView>, Error> {
    let row = sqlx::query!(
        r#"
        SELECT a.id, a.session_id, a.run_id, a.name, a.media_type, a.sha256, a.size_bytes, a.metadata, a.created_at
        FROM artifacts a
        WHERE a.id = $1 AND a.tenant_id = $2 AND ($3::text IS NULL OR a.principal_id = $3)
        "#,
        id,
        principal.tenant_id,
        principal.reads_owner(),
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(ArtifactView {
        id: row.id,
        session_id: row.session_id,
        run_id: row.run_id,
        name: row.name,
        media_type: row.media_type,
        sha256: row.sha256,
        size_bytes: row.size_bytes,
        metadata: RawValue::from_string(row.metadata).map_err(Error::internal)?,
        created_at: row.created_at,
    }))
}

/// Those of the identifiers whose bytes somebody has or may still get a row for.
pub(super) async fn wanted(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"
        SELECT a.id AS "id!" FROM artifacts a WHERE a.id = ANY($1)
        UNION ALL
        -- An artifact is called as its invocation is. One that is not finished may be made again, find its bytes in place and
        -- write the row a moment after we looked; one that is finished, or gone with its run, never will.
        SELECT i.id FROM tool_invocations i
        WHERE i.id = ANY($1) AND i.status IN ('PROPOSED', 'WAITING', 'AUTHORIZED', 'RUNNING')
        "#,
        ids,
    )
    .fetch_all(pool)
    .await
}

/// Bytes to be deleted: what their key is made of.
pub(super) struct Queued {
    pub(super) artifact_id: Uuid,
    pub(super) session_id: Uuid,
    pub(super) tenant_id: String,
}

/// Those that are due, the longest first.
pub(super) async fn due_deletions(pool: &PgPool, at_most: i64) -> Result<Vec<Queued>, sqlx::Error> {
    sqlx::query_as!(
        Queued,
        r#"
        SELECT d.artifact_id, d.session_id, d.tenant_id
        FROM artifact_deletions d WHERE d.due_at <= now() ORDER BY d.due_at LIMIT $1
        "#,
        at_most,
    )
    .fetch_all(pool)
    .await
}

pub(super) async fn forget_deletions(pool: &PgPool, ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM artifact_deletions d WHERE d.artifact_id = ANY($1)", ids).execute(pool).await?;
    Ok(())
}

/// Less than the interval of maintenance: its next pass tries again, after whatever has been due for longer.
pub(super) async fn postpone_deletions(pool: &PgPool, ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE artifact_deletions d SET due_at = now() + interval '5 seconds' WHERE d.artifact_id = ANY($1)", ids)
        .execute(pool)
        .await?;
    Ok(())
}
