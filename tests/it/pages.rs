//! Gate a14: every list stays complete and without repeats while rows are inserted between its pages.

use std::collections::BTreeSet;

use baton_core::Principal;
use baton_core::page::PageRequest;
use baton_core::runs::RunFilter;
use reqwest::StatusCode;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use crate::support::{Http, TestApp, id};

/// Rows before the first page is read: more than three pages, and not a whole number of them.
const ROWS: usize = 15;
const LIMIT: usize = 4;

/// Gives all rows of a table the same time, with digits below a millisecond: nothing but the id tells them apart.
async fn tie(pool: &PgPool, table: &str) {
    let tie = format!("UPDATE {table} SET created_at = '2026-01-01 00:00:00.123456+00'");
    sqlx::query(sqlx::AssertSqlSafe(tie)).execute(pool).await.unwrap();
}

async fn ids(pool: &PgPool, table: &str) -> BTreeSet<Uuid> {
    let ids = format!("SELECT id FROM {table}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(ids)).fetch_all(pool).await.unwrap().into_iter().collect()
}

/// A page of a list over HTTP.
async fn page(http: &Http, path: &str, cursor: Option<&str>) -> (Vec<Value>, Option<String>) {
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    let (status, page) = http.get(&format!("{path}?limit={LIMIT}{cursor}")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    (page["items"].as_array().unwrap().clone(), page["next_cursor"].as_str().map(str::to_owned))
}

/// # Panics
/// Unless everything that was there at the start was read, nothing twice, and the pages are full but for the last.
fn assert_complete(what: &str, before: &BTreeSet<Uuid>, pages: &[Vec<Uuid>]) {
    let read: Vec<Uuid> = pages.iter().flatten().copied().collect();
    let once: BTreeSet<Uuid> = read.iter().copied().collect();
    assert_eq!(once.len(), read.len(), "{what}: something came twice: {pages:?}");
    assert!(once.is_superset(before), "{what}: something is missing: {pages:?}");
    let (last, full) = pages.split_last().unwrap();
    assert!(!last.is_empty() && full.iter().all(|page| page.len() == LIMIT), "{what}: {pages:?}");
}

/// Adds rows that look as those of the test's start do, on both sides of wherever a reader is.
async fn insert_ties(pool: &PgPool, table: &str, columns: &str, low: u128) {
    for new in [Uuid::from_u128(low), Uuid::from_u128(u128::MAX - low)] {
        let insert = format!(
            "INSERT INTO {table} (id, created_at, {columns}) SELECT $1, created_at, {columns} FROM {table} ORDER BY id LIMIT 1"
        );
        sqlx::query(sqlx::AssertSqlSafe(insert)).bind(new).execute(pool).await.unwrap();
    }
}

#[tokio::test]
async fn gate_a14_case_j8_sessions_are_listed_completely_while_more_come() {
    let app = TestApp::start().await;
    for _ in 0..ROWS {
        app.http.create_session("test").await;
    }
    tie(&app.pool, "sessions").await;
    let before = ids(&app.pool, "sessions").await;
    let (mut pages, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let (items, next) = page(&app.http, "/v1/sessions", cursor.as_deref()).await;
        pages.push(items.iter().map(|item| id(&item["id"])).collect());
        app.http.create_session("test").await;
        insert_ties(&app.pool, "sessions", "tenant_id, principal_id, agent_id, agent_version", pages.len() as u128).await;
        let Some(next) = next else { break };
        cursor = Some(next);
    }
    assert_complete("sessions", &before, &pages);
    // Those that the test inserted have no events, which the audit would say.
    sqlx::query("DELETE FROM sessions WHERE last_sequence = 0").execute(&app.pool).await.unwrap();
    app.finish().await;
}

#[tokio::test]
async fn gate_a14_case_j8_runs_are_listed_completely_while_more_come() {
    let app = TestApp::start().await;
    for _ in 0..ROWS {
        app.http.start_run("noop").await;
    }
    tie(&app.pool, "runs").await;
    let (before, principal) = (ids(&app.pool, "runs").await, Principal::dev());
    let (mut pages, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let request = PageRequest::new(cursor.as_deref(), Some(LIMIT as i64)).unwrap();
        let page = app.services.runs.list(&principal, &RunFilter::default(), &request).await.unwrap();
        pages.push(page.items.iter().map(|run| run.id).collect());
        app.http.start_run("noop").await;
        tie(&app.pool, "runs").await; // as if all came in one transaction
        let Some(next) = page.next_cursor else { break };
        cursor = Some(next);
    }
    assert_complete("runs", &before, &pages);
    app.finish().await;
}

#[tokio::test]
async fn gate_a14_case_j8_approvals_are_listed_completely_while_more_come() {
    let app = TestApp::start().await;
    for status in ["", "status=PENDING"] {
        for _ in 0..ROWS {
            app.http.start_run("publish news").await;
        }
        app.work().await;
        tie(&app.pool, "approvals").await;
        let before = ids(&app.pool, "approvals").await;
        let (mut pages, mut cursor) = (Vec::new(), String::new());
        loop {
            let (answer, page) = app.http.get(&format!("/v1/approvals?limit={LIMIT}&{status}{cursor}")).await;
            assert_eq!(answer, StatusCode::OK, "{page}");
            pages.push(page["items"].as_array().unwrap().iter().map(|item| id(&item["id"])).collect());
            app.http.start_run("publish news").await;
            app.work().await;
            tie(&app.pool, "approvals").await;
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_complete("approvals", &before, &pages);
    }
    app.finish().await;
}

/// A transcript goes the other way: what comes meanwhile is at its end, and is read, too.
#[tokio::test]
async fn gate_a14_case_j12_messages_are_read_completely_while_more_come() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    for _ in 0..ROWS {
        app.http.submit(session_id, "noop").await;
        app.work().await;
    }
    let (mut read, mut cursor, mut more) = (Vec::new(), None::<String>, 6);
    loop {
        let (items, next) = page(&app.http, &path, cursor.as_deref()).await;
        read.extend(items.iter().map(|item| item["sequence"].as_i64().unwrap()));
        assert!(read.len() <= 1_000, "it never ends");
        if more > 0 {
            more -= 1;
            app.http.submit(session_id, "noop").await;
            app.work().await;
        }
        let Some(next) = next else { break };
        cursor = Some(next);
    }
    let stored: Vec<i64> = sqlx::query_scalar(
        "SELECT sequence FROM events WHERE session_id = $1 AND type IN ('user.message.created', 'assistant.message.completed')
         ORDER BY sequence",
    )
    .bind(session_id)
    .fetch_all(&app.pool)
    .await
    .unwrap();
    assert_eq!((read, stored.len()), (stored.clone(), (ROWS + 6) * 2));
    app.finish().await;
}
