//! The rows of artifacts.

use sqlx::PgPool;
use uuid::Uuid;

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
