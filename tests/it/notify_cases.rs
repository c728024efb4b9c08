//! Wake-ups through Postgres: what they carry, and that nobody waits for them.

use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::db;
use baton_core::notify::{Channel, Delta, DeltaKind, Hint, Notifier};
use baton_devdb::databases;
use baton_devdb::testing::TempCluster;
use reqwest::StatusCode;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, PgPool};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::events_wire::{Wire, Working};
use crate::support::{Caller, DEADLINE, Follower, RealApp, TestApp, TestDatabase, eventually, id, message, pool};

async fn execute(pool: &PgPool, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await.unwrap();
}

/// A NOTIFY whose commit waits, as for a standby, holds the lock that every other NOTIFY of the cluster needs: whoever
/// notifies waits, as with a full queue. Runs are submitted, executed and followed all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_a5_case_a7_nobody_but_the_notifier_waits_for_a_notification() {
    const SOON: Duration = Duration::from_secs(3);
    let cluster = TempCluster::start().unwrap();
    let url = databases::create_if_missing(&cluster, "baton").await.unwrap();
    let migrating = pool(&url, 1);
    db::apply_migrations(&migrating).await.unwrap();
    execute(&migrating, "ALTER DATABASE baton SET synchronous_commit = 'local'").await;
    migrating.close().await;
    let app = RealApp::on(&url, &[]).await;
    let worker = app.start_worker().await;
    Follower::new(&app.http, app.http.start_run("noop").await).follow_to_end().await;

    let elsewhere = pool(&cluster.url("postgres"), 3);
    execute(&elsewhere, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
    execute(&elsewhere, "SELECT pg_reload_conf()").await;
    let mut standing_still = elsewhere.acquire().await.unwrap().detach();
    // A commit that waits for a standby ends with its statement's time, too.
    sqlx::query("SET statement_timeout = 0").execute(&mut standing_still).await.unwrap();
    // Until the setting has reached Postgres, and a commit waits.
    let notifying = tokio::spawn(async move {
        while sqlx::query("SELECT pg_notify('somebody', '')").execute(&mut standing_still).await.is_ok() {}
    });
    // Not what Postgres itself may commit meanwhile.
    let standing = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%somebody%'";
    let blocker: i32 =
        eventually("its commit waits", || async { sqlx::query_scalar(standing).fetch_optional(&elsewhere).await.unwrap() }).await;

    let clock = Clock::system();
    let run_id = app.http.start_run("work").await;
    assert!(clock.elapsed() < SOON, "a submission took {:?}", clock.elapsed());
    let waiting = "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'object'";
    eventually("the API's notifier waits", || async {
        sqlx::query_scalar::<_, String>(waiting).fetch_optional(&elsewhere).await.unwrap()
    })
    .await;
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    let waiting: Vec<String> = sqlx::query_scalar(waiting).fetch_all(&elsewhere).await.unwrap();
    assert!(waiting.iter().all(|query| query.contains("count(pg_notify")), "{waiting:?}");
    assert!(!notifying.is_finished(), "the lock was held all the time");

    sqlx::query("SELECT pg_terminate_backend($1)").bind(blocker).execute(&elsewhere).await.unwrap();
    execute(&elsewhere, "ALTER SYSTEM RESET synchronous_standby_names").await;
    execute(&elsewhere, "SELECT pg_reload_conf()").await;
    tokio::time::timeout(DEADLINE, notifying).await.expect("whoever held the lock is gone").unwrap();
    elsewhere.close().await;
    drop(worker);
    app.finish().await;
}

/// A model that says more than anybody can read: deltas come without a break, and what somebody waits for goes out between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deltas_without_end_hold_no_hint_up() {
    let database = TestDatabase::create().await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen(Channel::Control.as_str()).await.unwrap();
    let notifier = Notifier::start(&database.pool.connect_options());
    let (run_id, stop) = (Uuid::from_u128(1), CancellationToken::new());
    let flood = tokio::spawn({
        let (notifier, stop) = (notifier.clone(), stop.clone());
        async move {
            let mut offset = 0;
            while !stop.is_cancelled() {
                let (session_id, kind, text) = (Uuid::nil(), DeltaKind::Reasoning, "x".repeat(64));
                let delta = Delta { session_id, run_id, step: 1, attempt: 1, message_index: 0, kind, offset, text };
                notifier.send([Hint::Live(delta)]);
                offset += 64;
                if offset % 4_096 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    for _ in 0..3 {
        // A full queue drops hints: then the next one is heard.
        let heard = async {
            loop {
                notifier.send([Hint::Cancel { run_id }]);
                if tokio::time::timeout(Duration::from_millis(100), listener.recv()).await.is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(5), heard).await.expect("a hint between deltas");
    }
    stop.cancel();
    flood.await.unwrap();
    drop((listener, notifier));
    database.remove().await;
}

/// Everything that a role without any rights hears while two tenants work, and somebody says much.
#[tokio::test]
async fn case_a6_case_a15_what_is_notified_is_short_and_holds_ids_and_numbers_alone() {
    const PAYLOAD_MAX: usize = 100;
    let app = TestApp::start().await;
    let role = format!("listener_{}", Clock::system().new_id().simple());
    execute(&app.pool, &format!("CREATE ROLE {role} LOGIN")).await;
    let as_role = app.config.database.url.as_deref().unwrap().replace("postgres://postgres@", &format!("postgres://{role}@"));
    let mut listener = PgListener::connect(&as_role).await.unwrap();
    listener.listen_all(Channel::ALL.iter().map(|channel| channel.as_str())).await.unwrap();

    let working = Working::start(&app.worker);
    let long = "漢".repeat(7_990); // 24 KB
    let mut runs = Vec::new();
    for (tenant, text) in [("acme", "ponder"), ("globex", "work"), ("acme", &long)] {
        let http = app.http.with_caller(Caller::new(tenant, "secretperson"));
        let session_id = http.create_session("test").await;
        let (status, run) = http.post(&format!("/v1/sessions/{session_id}/messages"), &message(text)).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{run}");
        let run_id = id(&run["run_id"]);
        let mut follower = Follower::new(&http, run_id);
        follower.follow_to_end().await;
        follower.assert_exactly_once(&app.pool).await;
        http.cancel(run_id).await;
        runs.push((session_id, run_id));
    }
    working.stop().await;
    sqlx::query("SELECT pg_notify('baton_queue', 'the last')").execute(&app.pool).await.unwrap();

    let mut heard = [0; Channel::ALL.len()];
    loop {
        let told = tokio::time::timeout(DEADLINE, listener.recv()).await.unwrap().unwrap();
        let (channel, payload): (Channel, &str) = (told.channel().parse().unwrap(), told.payload());
        if payload == "the last" {
            break;
        }
        heard[Channel::ALL.iter().position(|known| *known == channel).unwrap()] += 1;
        let is_session = |text: &str| text.parse::<Uuid>().is_ok_and(|id| runs.iter().any(|(session, _)| *session == id));
        match channel {
            Channel::Queue => assert_eq!(payload, ""),
            Channel::Control => assert!(payload.parse::<Uuid>().is_ok(), "{payload}"),
            Channel::Events => {
                let (session, sequence) = payload.split_once(':').unwrap();
                assert!(is_session(session) && sequence.parse::<u32>().is_ok(), "{payload}");
            }
            // The one channel with text, for whose sake CONNECT is revoked from PUBLIC.
            Channel::Live => {
                assert!(payload.len() < 8_000 && is_session(payload.split(':').next().unwrap()), "{payload}");
                continue;
            }
        }
        assert!(payload.len() <= PAYLOAD_MAX, "{payload}");
    }
    let of = |channel| heard[Channel::ALL.iter().position(|known| *known == channel).unwrap()];
    assert!(of(Channel::Queue) > 0 && of(Channel::Events) > 3 && of(Channel::Live) > 0, "{heard:?}");
    drop(listener);
    execute(&app.pool, &format!("DROP ROLE {role}")).await;
    app.finish().await;
}

#[tokio::test]
async fn case_a17_five_hundred_streams_take_no_connection_of_the_database() {
    const STREAMS: usize = 500;
    let app = TestApp::start().await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let run_id = app.http.start_run("noop").await;
        streams.push(Wire::open(&app.http, run_id, None).await);
    }
    for wire in &mut streams {
        wire.until_sequence(3).await;
    }
    let backends = "SELECT count(*) FILTER (WHERE query LIKE 'LISTEN%'), count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'baton api'";
    let (listening, all): (i64, i64) = sqlx::query_as(backends).fetch_one(&app.pool).await.unwrap();
    // Its pool, one that listens and one that notifies.
    assert!(listening == 1 && all <= i64::from(app.config.database.pool) + 2, "{listening} of {all} listen");
    drop(streams);
    app.work().await;
    app.finish().await;
}
