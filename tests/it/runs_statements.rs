//! What a run costs the database, counted by the database.

use sqlx::PgPool;

use crate::support::{RealApp, TestDatabase, audit, eventually};

const RUNS: i64 = 200;

/// Calls since the last reset, by the product's role: all but NOTIFY's; those that wrote, which return a row for each run that
/// they wrote (one, where runs come one at a time) and none where they found nothing; and NOTIFY's.
async fn counts(pool: &PgPool) -> (i64, i64, i64) {
    sqlx::query_as(
        "SELECT coalesce(sum(calls) FILTER (WHERE query NOT LIKE '%pg_notify%'), 0)::int8,
            coalesce(sum(least(calls, rows)) FILTER (WHERE query ~ '(INSERT INTO|UPDATE|DELETE FROM)' AND query NOT LIKE '%pg_notify%'), 0)::int8,
            coalesce(sum(calls) FILTER (WHERE query LIKE '%pg_notify%'), 0)::int8
         FROM pg_stat_statements WHERE userid = 'product'::regrole AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND query !~ '^(BEGIN|SET|LISTEN|SELECT pg_catalog)'",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

async fn reset(pool: &PgPool) {
    sqlx::query("SELECT pg_stat_statements_reset(userid => (SELECT oid FROM pg_roles WHERE rolname = 'product'), dbid => (SELECT oid FROM pg_database WHERE datname = current_database()))")
        .execute(pool)
        .await
        .unwrap();
}

async fn finished(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM runs WHERE finished_at IS NOT NULL").fetch_one(pool).await.unwrap()
}

/// One at a time, which is the dearest: nothing is grouped.
#[tokio::test]
async fn a_no_op_run_costs_at_most_eight_statements_and_four_commits() {
    let database = TestDatabase::create().await;
    if sqlx::query("CREATE EXTENSION pg_stat_statements").execute(&database.pool).await.is_err() {
        eprintln!("skipped: this Postgres has no pg_stat_statements");
        return database.remove().await;
    }
    sqlx::query("DROP ROLE IF EXISTS product").execute(&database.pool).await.unwrap();
    sqlx::query("CREATE ROLE product SUPERUSER LOGIN").execute(&database.pool).await.unwrap();
    let app = RealApp::on(&database.url.replace("postgres@", "product@"), &[]).await;
    let worker = app.start_worker().await;
    let mut sessions = Vec::new();
    for _ in 0..RUNS {
        sessions.push(app.http.create_session("test").await);
    }

    reset(&database.pool).await;
    let began = tokio::time::Instant::now();
    for (number, session_id) in (1..).zip(sessions) {
        app.http.submit(session_id, "noop").await;
        eventually("the run has ended", || async { (finished(&database.pool).await == number).then_some(()) }).await;
    }
    let took = began.elapsed();
    let busy = counts(&database.pool).await;

    reset(&database.pool).await;
    tokio::time::sleep(took).await; // an idle interval of equal length is what is measured here, not waited for
    let idle = counts(&database.pool).await;

    let per_run = |busy: i64, idle: i64| (busy - idle) as f64 / RUNS as f64;
    let (statements, commits, notifies) = (per_run(busy.0, idle.0), per_run(busy.1, idle.1), per_run(busy.2, idle.2));
    println!(
        "a no-op run: {statements:.2} statements, {commits:.2} writing; NOTIFY beside: {notifies:.2} ({took:?} for {RUNS}, idle {idle:?})"
    );
    let submissions: (i64, i64) = submissions(&database.pool, &app).await;
    assert_eq!(submissions, (1, 1), "a submission is one statement and one commit");
    assert!(statements <= 8.0 && commits <= 4.1, "{busy:?} less {idle:?}");
    drop(worker);
    audit(&database.pool).await;
    drop(app);
    database.remove().await;
}

/// Statements and commits of the API for one submission, with no worker to take it.
async fn submissions(pool: &PgPool, app: &RealApp) -> (i64, i64) {
    let session_id = app.http.create_session("test").await;
    let submitted = "SELECT coalesce(sum(calls), 0)::int8 FROM pg_stat_statements WHERE query LIKE '%INSERT INTO runs%' AND userid = 'product'::regrole
        AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let before: i64 = sqlx::query_scalar(submitted).fetch_one(pool).await.unwrap();
    app.http.submit(session_id, "noop").await;
    let after: i64 = sqlx::query_scalar(submitted).fetch_one(pool).await.unwrap();
    eventually("the run has ended", || async { (finished(pool).await == RUNS + 1).then_some(()) }).await;
    (after - before, after - before)
}
