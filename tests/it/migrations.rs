//! The schema and its version.

use std::process::Stdio;

use baton_core::db::{self, SchemaError};
use baton_devdb::{databases, testing};
use tokio::process::Command;

use crate::support::{DEADLINE, TestDatabase, pool};

#[tokio::test]
async fn gate_b7_migrations_apply_to_an_empty_database_and_twice() {
    let name = "empty_for_b7";
    let url = databases::create_if_missing(testing::shared(), name).await.unwrap();
    let pool = pool(&url, 2);
    assert!(matches!(db::check_schema(&pool).await, Err(SchemaError::Older { found: 0, .. })));
    let pending = db::pending_migrations(&pool).await.unwrap();
    assert_eq!(pending.first().map(|(version, title)| (*version, title.as_str())), Some((1, "agent versions")));

    db::apply_migrations(&pool).await.unwrap();
    db::check_schema(&pool).await.unwrap();
    db::apply_migrations(&pool).await.unwrap();
    assert!(db::pending_migrations(&pool).await.unwrap().is_empty());
    pool.close().await;
    databases::drop_database(testing::shared(), name).await.unwrap();
}

#[tokio::test]
async fn gate_b7_a_newer_schema_is_refused_and_left_alone() {
    let database = TestDatabase::create().await;
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'from the future', true, '\\x00', 1)")
        .execute(&database.pool)
        .await
        .unwrap();
    for command in ["api", "worker", "migrate"] {
        let (code, said) = ended(command, &database.url).await;
        assert_eq!(code, Some(6), "{command}: {said}");
        assert!(said.contains("version 9999") && said.contains("newer than"), "{command} names both versions: {said}");
    }
    let (rows, workers): (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM agent_versions), (SELECT count(*) FROM workers)")
            .fetch_one(&database.pool)
            .await
            .unwrap();
    assert_eq!((rows, workers), (0, 0), "nothing was changed");
    database.remove().await;
}

/// The exit code of a command that must end by itself, and what it said.
async fn ended(command: &str, database_url: &str) -> (Option<i32>, String) {
    let mut agentctl = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    agentctl.arg(command).env("DATABASE_URL", database_url).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(DEADLINE, agentctl.spawn().unwrap().wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("`agentctl {command}` does not end")).unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What is hashed has to come back byte for byte: `jsonb` would sort keys, drop one of two equal ones, and write 1.0 as it likes.
#[tokio::test]
async fn case_j5_nothing_is_stored_as_jsonb() {
    let database = TestDatabase::create().await;
    let columns: Vec<String> = sqlx::query_scalar(
        "SELECT table_name || '.' || column_name FROM information_schema.columns
         WHERE table_schema = current_schema() AND data_type IN ('json', 'jsonb')",
    )
    .fetch_all(&database.pool)
    .await
    .unwrap();
    assert_eq!(columns, Vec::<String>::new());
    database.remove().await;
}

#[tokio::test]
async fn the_usage_that_sql_writes_is_the_usage_that_core_writes() {
    let app = crate::support::TestApp::start().await;
    let run_id = app.http.start_run("work").await;
    app.work().await;
    sqlx::query("UPDATE runs SET cost_usd = 1.2500000000 WHERE id = $1").bind(run_id).execute(&app.pool).await.unwrap();
    let in_sql: String =
        sqlx::query_scalar("SELECT run_usage(r) FROM runs r WHERE r.id = $1").bind(run_id).fetch_one(&app.pool).await.unwrap();
    let view = app.services.runs.get(&baton_core::Principal::dev(), run_id).await.unwrap();
    assert_eq!(in_sql, serde_json::to_string(&view.usage).unwrap());
    sqlx::query("UPDATE runs SET cost_usd = NULL WHERE id = $1").bind(run_id).execute(&app.pool).await.unwrap();
    app.finish().await;
}
