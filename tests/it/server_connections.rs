//! Connections that do not behave, and what the end of the server waits for.

use std::time::Duration;

use futures::future;
use nix::sys::signal::Signal;
use serde_json::json;
use socket2::{SockFilter, SockRef};
use tokio::time::Instant;

use crate::events_wire::{Wire, append_and_notify};
use crate::server_wire::{Answer, Raw, answer, request};
use crate::support::{RealApp, TestApp, eventually, message};

const SHORT: Duration = Duration::from_millis(200);

/// As `SHORT`, for a machine with other things to do.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_connection_that_does_not_become_a_request_is_closed() {
    let app = TestApp::start_with(|config| {
        (config.server.header_timeout, config.server.idle_timeout) = (SHORT, SHORT * 3);
    })
    .await;
    for beginning in
        ["", "G", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nhost: localhost\r\nx-a", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut raw = Raw::open(&app.http).await;
        raw.send(beginning).await;
        assert!(raw.read_to_end_within(SOON).await.is_some(), "{beginning:?}");
    }
    // One that was of use, and is silent now.
    let mut raw = Raw::open(&app.http).await;
    raw.send("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let answer = Answer::parse(&raw.read_to_end_within(SOON).await.unwrap()).unwrap();
    assert_eq!(answer.status, 200);
    // A request takes its time: nothing of this is counted against it.
    let run_id = app.http.start_run("noop").await;
    let (status, run) = app.http.get(&format!("/v1/runs/{run_id}?wait=2")).await;
    assert_eq!((status.as_u16(), &run["status"]), (200, &json!("QUEUED")));
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off_and_a_body_that_does_is_refused() {
    let app = TestApp::start_with(|config| {
        (config.server.header_timeout, config.server.body_timeout) = (SHORT * 2, SHORT);
    })
    .await;
    let mut head = Raw::open(&app.http).await;
    head.send("GET /health/live HTTP/1.1\r\n").await;
    let drips = async {
        while head.send("x-a: b\r\n").await {
            tokio::time::sleep(SHORT / 4).await;
        }
    };
    tokio::time::timeout(SOON, drips).await.expect("the head is cut off");

    let mut body = Raw::open(&app.http).await;
    body.send("POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        .await;
    let answer = Answer::parse(&body.read_to_end_within(SOON).await.unwrap()).unwrap();
    assert_eq!((answer.status, answer.code().as_deref()), (400, Some("malformed_request")), "{answer:?}");
    assert!(String::from_utf8_lossy(&answer.body).contains("the body did not arrive in time"));
    app.finish().await;
}

#[tokio::test]
async fn a_head_has_a_bound_and_what_is_not_http_is_refused() {
    let app = TestApp::start_with(|config| config.server.header_bytes_max = 8 * 1024).await;
    let large = format!("x-a: {}\r\n", "a".repeat(9 * 1024));
    let many = "x-a: b\r\n".repeat(200);
    for (sent, status) in [
        (request("GET /health/live", "", ""), 200),
        (request("GET /health/live", &large, ""), 431),
        (request("GET /health/live", &many, ""), 431),
        (request(&format!("GET /{}", "a".repeat(9 * 1024)), "", ""), 431),
        ("hello\r\n\r\n".into(), 400),
        ("GET /health/live HTTP/9.9\r\n\r\n".into(), 400),
        (request("GET /health/live", "no colon\r\n", ""), 400),
        (request("GET /health/live", "content-length: x\r\n", ""), 400),
        (request("GET /health/live", "content-length: 1\r\ncontent-length: 2\r\n", ""), 400),
        ("GET /health/live HTTP/1.1\r\nconnection: close\r\n\r\n".into(), 421),
    ] {
        let answer = answer(&app.http, &sent).await.unwrap_or_else(|| panic!("no answer to {sent:.80}"));
        assert_eq!(answer.status, status, "{sent:.80}");
        // There is an envelope where there is a request.
        assert_eq!(answer.code().is_some(), status == 421, "{sent:.80}");
    }
    app.finish().await;
}

#[tokio::test]
async fn more_connections_than_there_is_room_for_wait() {
    let app = TestApp::start_with(|config| config.server.max_connections = 2).await;
    let mut held = [Raw::open(&app.http).await, Raw::open(&app.http).await];
    for raw in &mut held {
        raw.send("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        raw.read_until("ok").await;
    }
    let mut waiting = Raw::open(&app.http).await;
    waiting.send(request("GET /health/live", "", "")).await;
    assert!(waiting.read_to_end_within(SHORT).await.is_none());
    drop(held);
    assert_eq!(Answer::parse(&waiting.read_to_end().await).unwrap().status, 200);
    drop(waiting);
    app.finish().await;
}

#[tokio::test]
async fn case_c24_a_client_that_reads_nothing_is_cut_off_and_one_that_reads_late_is_told() {
    let app = TestApp::start_with(|config| config.server.write_timeout = Duration::from_secs(1)).await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let follow = request(&format!("GET /v1/runs/{run_id}/events"), "", "");
    // More than the buffers of both sides take.
    let big = "x".repeat(250 * 1024);
    let mut last = 0;
    for _ in 0..64 {
        last = append_and_notify(&app.pool, session_id, run_id).await;
        sqlx::query("UPDATE events SET body = '{\"approval_id\":\"0190fd4e-0000-7000-8000-000000000000\",\"reason\":\"' || $3 || '\"}' WHERE session_id = $1 AND sequence = $2")
            .bind(session_id).bind(last).bind(&big).execute(&app.pool).await.unwrap();
    }
    let (mut never, mut late) = (Raw::open(&app.http).await, Raw::open(&app.http).await);
    never.send(&follow).await;
    late.send(&follow).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await; // longer than the time-out, shorter than it and the farewell
    let told = String::from_utf8_lossy(&late.read_to_end().await).into_owned();
    let farewell = told.rfind("event: stream.overflow").unwrap_or_else(|| panic!("{:.200}", told[told.len() - 400..].to_owned()));
    let newest = told[..farewell].rmatches("\nid: ").count();
    assert!(told[farewell..].contains("last_sequence") && newest < 64, "{}", &told[farewell..]);
    assert!(!told[farewell..].contains("id:"), "{}", &told[farewell..]);

    tokio::time::sleep(Duration::from_secs(5)).await; // until the farewell has had its time
    let rest = never.read_to_end_within(SOON).await.expect("it was cut off");
    assert!(!String::from_utf8_lossy(&rest).contains(&format!("id: {last}\n")));
    app.finish_unaudited().await;
}

/// Nothing that comes for it is let through, so that it acknowledges nothing, and closes nothing: as behind a lost route.
fn vanish(raw: &Raw) {
    const RETURN: u16 = 0x06;
    let nothing_of_a_segment = [SockFilter::new(RETURN, 0, 0, 0)];
    SockRef::from(&raw.socket).attach_filter(&nothing_of_a_segment).unwrap();
}

#[tokio::test]
async fn case_c21_clients_that_vanish_are_let_go_of() {
    const CLIENTS: u32 = 100;
    let app = TestApp::start_with(|config| {
        config.server.write_timeout = Duration::from_secs(1);
        config.server.max_streams_per_principal = Some(CLIENTS);
    })
    .await;
    let run_id = app.http.start_run("noop").await;
    let mut vanished = Vec::new();
    for _ in 0..CLIENTS {
        let mut raw = Raw::open(&app.http).await;
        raw.send(request(&format!("GET /v1/runs/{run_id}/events"), "", "")).await;
        raw.read_until("run.queued").await;
        vanished.push(raw);
    }
    assert_eq!(Wire::open(&app.http, run_id, None).await.status.as_u16(), 429, "every place is taken");
    vanished.iter().for_each(vanish);
    let mut streams = Vec::new();
    for _ in 0..CLIENTS {
        let place = || async { Some(Wire::open(&app.http, run_id, None).await).filter(|wire| wire.status.as_u16() == 200) };
        streams.push(eventually("there is a place", place).await);
    }
    drop((vanished, streams));
    app.work().await;
    app.finish().await;
}

/// Streams and requests of a page share one connection, where HTTP/1.1 would have let six streams take them all.
#[tokio::test]
async fn case_c25_over_http_2_streams_keep_no_approval_waiting() {
    const AT_ONCE: Duration = Duration::from_secs(1);
    let app = TestApp::start().await;
    let run_id = app.http.start_run("publish news").await;
    app.work().await;
    let mut http = app.http.clone();
    #[expect(clippy::disallowed_methods, reason = "the tests are the clients here")]
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    http.client = client;
    let mut streams = Vec::new();
    for _ in 0..7 {
        let mut wire = Wire::open(&http, run_id, None).await;
        wire.until("what it waits for", |frames| frames.iter().any(|frame| frame.event() == "run.waiting_for_approval")).await;
        streams.push(wire);
    }
    let resolving = tokio::time::timeout(AT_ONCE, http.resolve_all(run_id, "approve_once"));
    resolving.await.expect("an approval is answered beside seven streams");
    app.work().await;
    future::join_all(streams.iter_mut().map(Wire::until_end)).await;
    app.finish().await;
}

#[tokio::test]
async fn case_c30_the_end_of_the_server_ends_streams_finishes_requests_and_waits_for_nothing_else() {
    let mut app = RealApp::start(&[]).await;
    let run_id = app.http.start_run("noop").await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        let mut wire = Wire::open(&app.http, run_id, None).await;
        wire.until("the first events", |frames| frames.iter().any(|frame| frame.id.is_some())).await;
        streams.push(wire);
    }
    let mut partial = Vec::new();
    for beginning in ["", "G", "PRI * HT", "GET /health/live HTTP/1.1\r\nhost: localhost\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut raw = Raw::open(&app.http).await;
        raw.send(beginning).await;
        partial.push(raw);
    }
    let mut kept = Raw::open(&app.http).await;
    kept.send("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    kept.read_until("ok").await;
    // A request in flight, whose body is not whole yet.
    let session_id = app.http.create_session("test").await;
    let body = message("noop").to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let mut posting = Raw::open(&app.http).await;
    let head = format!(
        "POST /v1/sessions/{session_id}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{first}",
        body.len()
    );
    posting.send(head).await;
    tokio::time::sleep(SHORT).await; // until the server has read what was sent

    let began = Instant::now();
    let mut api = app.api.take().unwrap();
    api.signal(Signal::SIGTERM);
    future::join_all(streams.iter_mut().map(Wire::until_end)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "streams ended after {:?}", began.elapsed());
    for wire in &streams {
        let last = wire.frames().pop().unwrap();
        assert_eq!((last.event(), last.id), ("stream.closing", None));
    }
    for raw in partial.iter_mut().chain([&mut kept]) {
        assert!(raw.read_to_end_within(Duration::from_secs(1)).await.is_some(), "it holds the end up");
    }
    posting.send(second).await;
    let answer = Answer::parse(&posting.read_to_end().await).unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(api.ended().await.success());
    assert!(began.elapsed() < Duration::from_secs(3), "the process ended after {:?}", began.elapsed());
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM runs WHERE session_id = $1")
        .bind(session_id)
        .fetch_one(&app.pool)
        .await
        .unwrap();
    assert_eq!(stored, 1);
    app.finish().await;
}

#[tokio::test]
async fn a_process_without_descriptors_answers_again_when_it_has_some() {
    let app = RealApp::start(&[]).await;
    let pid = app.api.as_ref().unwrap().pid();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let limit = format!("--nofile={}", open + 8);
    let Ok(status) = std::process::Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status() else {
        eprintln!("skipped: this machine has no prlimit");
        return app.finish().await;
    };
    assert!(status.success());
    let mut held = Vec::new();
    for _ in 0..32 {
        held.push(Raw::open(&app.http).await);
    }
    let mut waiting = Raw::open(&app.http).await;
    waiting.send(request("GET /health/live", "", "")).await;
    assert!(waiting.read_to_end_within(SHORT).await.is_none(), "it has a descriptor left");
    drop(held);
    assert_eq!(Answer::parse(&waiting.read_to_end().await).unwrap().status, 200);
    app.finish().await;
}
