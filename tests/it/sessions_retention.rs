//! Sessions in which nothing has happened for long go by themselves, where that is wanted.

use std::time::Duration;

use baton_core::artifacts::ArtifactStore;
use baton_core::execution::maintenance::Maintenance;
use baton_core::notify::Notifier;
use uuid::Uuid;

use crate::support::TestApp;

const DAYS: u16 = 30;

fn maintenance(app: &TestApp, days: Option<u16>) -> Maintenance {
    let artifacts = ArtifactStore::open(&app.config.artifacts, app.clock.clone()).unwrap();
    Maintenance::new(app.pool.clone(), Notifier::off(), artifacts, 3).with_retention(days)
}

/// A session that was created so many days ago, and in which something has happened so many days ago.
async fn age(app: &TestApp, session_id: Uuid, created: f64, updated: f64) {
    sqlx::query(
        "UPDATE sessions SET created_at = now() - $2 * interval '1 day', updated_at = now() - $3 * interval '1 day' WHERE id = $1",
    )
    .bind(session_id)
    .bind(created)
    .bind(updated)
    .execute(&app.pool)
    .await
    .unwrap();
}

async fn there(app: &TestApp) -> Vec<Uuid> {
    sqlx::query_scalar("SELECT id FROM sessions ORDER BY id").fetch_all(&app.pool).await.unwrap()
}

#[tokio::test]
async fn sessions_go_after_the_days_that_are_configured_and_no_earlier() {
    let app = TestApp::start_with(|config| config.retention.days = Some(DAYS)).await;
    let mut sessions = Vec::new();
    for text in ["noop", "write a file", "noop", "noop", "publish news"] {
        let session_id = app.http.create_session("test").await;
        app.http.submit(session_id, text).await;
        sessions.push(session_id);
    }
    let unused = app.http.create_session("test").await;
    app.work().await;
    app.http.close(sessions[0]).await;
    let (closed, with_bytes, in_use, recent, waiting) = (sessions[0], sessions[1], sessions[2], sessions[3], sessions[4]);
    for session_id in [closed, with_bytes, waiting, unused] {
        age(&app, session_id, 40.0, 30.1).await;
    }
    age(&app, in_use, 40.0, 29.9).await;

    maintenance(&app, None).pass(Duration::ZERO).await.unwrap();
    assert_eq!(there(&app).await.len(), 6, "kept for ever, unless somebody says otherwise");
    app.worker.sweep().await.unwrap();
    let mut kept = vec![in_use, recent, waiting];
    kept.sort();
    assert_eq!(there(&app).await, kept);
    let queued: i64 = sqlx::query_scalar("SELECT count(*) FROM artifact_deletions").fetch_one(&app.pool).await.unwrap();
    assert_eq!(queued, 0, "its bytes went in the same pass");
    let bytes = std::fs::read_dir(&app.config.artifacts.folder).into_iter().flatten().map(|tenant| tenant.unwrap().path());
    let left = bytes.flat_map(|tenant| std::fs::read_dir(tenant).unwrap()).count();
    assert_eq!(left, 0);
    app.finish().await;
}

/// Old sessions of which few are due: every pass is bounded, and none is forgotten.
#[tokio::test]
async fn passes_are_bounded_and_reach_every_session() {
    let app = TestApp::start().await;
    app.http.create_session("test").await;
    // Old ones in use, behind them old ones that are due, and behind those young ones.
    sqlx::query(
        "WITH new AS (
            INSERT INTO sessions (id, tenant_id, principal_id, agent_id, agent_version, last_sequence, created_at, updated_at)
            SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'dev', 'dev', s.agent_id, s.agent_version, 1,
                now() - interval '40 days', CASE WHEN n > 1100 AND n <= 1250 THEN now() - interval '31 days' ELSE now() END
            FROM sessions s, generate_series(1, 1300) n RETURNING id, agent_id, agent_version)
         INSERT INTO events (session_id, sequence, type, schema_version, body)
         SELECT id, 1, 'session.created', 1, '{\"agent_id\":\"test\",\"agent_version\":\"1\"}' FROM new",
    )
    .execute(&app.pool)
    .await
    .unwrap();
    let mut maintenance = maintenance(&app, Some(DAYS));
    let mut left = Vec::new();
    for pass in 0..4 {
        maintenance.pass(Duration::from_secs(10 * pass)).await.unwrap();
        left.push(there(&app).await.len());
    }
    // It looks at a thousand, deletes a hundred, goes on behind them, and begins again.
    assert_eq!(left, [1301, 1201, 1151, 1151]);
    app.finish().await;
}
