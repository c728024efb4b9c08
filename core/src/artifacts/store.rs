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
