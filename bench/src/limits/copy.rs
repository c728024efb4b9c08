//! Rows of the log to a client, as fast as Postgres sends them: `COPY`.

use anyhow::{Context, Result};
use futures::TryStreamExt;
use sqlx::PgConnection;
use uuid::Uuid;

/// Copies what a replay reads of one session, and drops it. How many bytes came.
pub(crate) async fn log(session: &mut PgConnection, session_id: Uuid) -> Result<usize> {
    let statement = format!(
        "COPY (SELECT sequence, run_id, type, schema_version, created_at, body FROM events WHERE session_id = '{session_id}' ORDER BY sequence) TO STDOUT"
    );
    let rows = session.copy_out_raw(&statement).await.context("beginning COPY")?;
    rows.try_fold(0, |bytes, row| std::future::ready(Ok(bytes + row.len()))).await.context("COPY broke off")
}
