//! What nobody would send by mistake, in great number: right codes, bounded memory, and alive afterwards.

use std::time::Duration;

use futures::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

use crate::server_wire::{Answer, Raw};
use crate::support::{Http, RealApp, eventually};

const REQUESTS: u64 = 1_000;
const AT_ONCE: usize = 32;
const LORIS: usize = 100;

/// What the process may have grown by: arenas of its allocator, and a thousand connections' worth of nothing.
const GROWTH_BYTES_MAX: u64 = 48 << 20;

/// What may be answered to noise: never a failure of ours. 200: the noise may be a question without a body.
const STATUSES: &[u16] = &[200, 400, 401, 403, 404, 405, 411, 413, 414, 415, 421, 431, 501, 505];

#[tokio::test]
async fn a_thousand_hostile_requests_and_a_hundred_slow_ones_leave_the_server_as_it_was() {
    let header_timeout = Duration::from_secs(4);
    let app = RealApp::start(&[("BATON_SERVER__HEADER_TIMEOUT", "4s"), ("BATON_SERVER__BODY_TIMEOUT", "2s")]).await;
    let pid = app.api.as_ref().unwrap().pid();
    app.http.create_session("test").await;
    let before = resident_bytes(pid);
    let began = Instant::now();

    let mut slow = Vec::new();
    for _ in 0..LORIS {
        let mut raw = Raw::open(&app.http).await;
        raw.send("GET /health/live HTTP/1.1\r\nhost: localhost\r\n").await;
        slow.push(raw);
    }
    let dripping = tokio::spawn(async move {
        while !slow.is_empty() {
            let mut open = Vec::new();
            for mut raw in slow {
                if raw.send("x-drip: y\r\n").await {
                    open.push(raw);
                }
            }
            slow = open;
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    });
    let answers = stream::iter(0..REQUESTS).map(|seed| attack(&app.http, seed)).buffer_unordered(AT_ONCE);
    let answered = answers.filter(|answered| futures::future::ready(*answered)).count().await;
    // The rest was cut off in the middle of something, as it had cut off itself.
    assert!(answered as u64 > REQUESTS / 2, "{answered} of {REQUESTS} were answered");
    tokio::time::timeout(header_timeout * 3, dripping).await.expect("slow heads are cut off").unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());

    let run_id = app.http.start_run("noop").await;
    assert_eq!(app.http.run(run_id).await["status"], "QUEUED");
    let after = eventually("memory is given back", || async {
        let after = resident_bytes(pid);
        (after < before + GROWTH_BYTES_MAX).then_some(after)
    })
    .await;
    println!("{answered} answers in {:?}; resident {} MiB before, {} after", began.elapsed(), before >> 20, after >> 20);
    let _worker = app.start_worker().await;
    app.http.run_in(run_id, "COMPLETED").await;
    app.finish().await;
}

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// One request that is wrong in several ways, and whether it was answered.
async fn attack(http: &Http, seed: u64) -> bool {
    let mut random = StdRng::seed_from_u64(seed);
    let (sent, is_whole) = noise(&mut random);
    let mut raw = Raw::open(http).await;
    raw.send(&sent).await;
    if !is_whole && random.random_bool(0.5) {
        return false; // gone in the middle of it
    }
    let Some(answer) = Answer::parse(&raw.read_to_end().await) else { return false };
    let shown = String::from_utf8_lossy(&sent).chars().take(300).collect::<String>();
    assert!(STATUSES.contains(&answer.status), "seed {seed}: {} for {shown:?}", answer.status);
    // Whatever became a request has an envelope; a head that did not is refused by the protocol alone.
    let is_enveloped = answer.code().is_some() || answer.status == 200 || answer.body.is_empty();
    assert!(is_enveloped, "seed {seed}: {answer:?} for {shown:?}");
    true
}

/// The bytes, and whether they are as many as they say.
fn noise(random: &mut StdRng) -> (Vec<u8>, bool) {
    let method = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "B\u{e4}"].choose(random).unwrap();
    let path = [
        "/v1/sessions",
        "/v1/sessions/x/messages",
        "/v1/sessions/01900000-0000-7000-8000-000000000000/messages",
        "/v1/runs?limit=%00",
        "/v1/runs/%ff%fe",
        "/v1/approvals/01900000-0000-7000-8000-000000000000/resolve",
        "/v1/runs/01900000-0000-7000-8000-000000000000/input?wait=-1",
        "/health/ready",
        "*",
        "//..//",
    ]
    .choose(random)
    .unwrap();
    let mut sent = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n").into_bytes();
    for _ in 0..random.random_range(0..6) {
        let name = ["content-type", "last-event-id", "idempotency-key", "x-request-id", "traceparent", "accept", "x-a", "origin"];
        sent.extend(format!("{}: ", name.choose(random).unwrap()).bytes());
        let is_visible = random.random_bool(0.7);
        for _ in 0..random.random_range(0..200) {
            let byte: u8 = random.random();
            sent.push(if is_visible { 0x20 + byte % 0x5f } else { byte });
        }
        sent.extend(b"\r\n");
    }
    if random.random_bool(0.6) {
        sent.extend(b"content-type: application/json\r\n");
    }
    let body: Vec<u8> = match random.random_range(0..3) {
        0 => (0..random.random_range(0..4_096)).map(|_| random.random()).collect(),
        1 => "[".repeat(random.random_range(0..20_000)).into_bytes(),
        _ => br#"{"agent_id":"test","metadata":{"a":"\u0000","a":1e999}}"#.to_vec(),
    };
    let missing = if random.random_bool(0.3) { random.random_range(1..2_000_000) } else { 0 };
    sent.extend(format!("content-length: {}\r\n\r\n", body.len() + missing).bytes());
    sent.extend(body);
    (sent, missing == 0)
}
