//! `agentctl stream verify`: says yes of our streams, however often they are cut, and no of one that is not exact.
//!
//! `BATON_RECONNECTIONS` says how often they are cut; docs/reliability.md has what a hundred thousand came to.

use std::process::Output;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;
use uuid::Uuid;

use crate::support::{RealApp, Terminal};

/// In the suite.
const RECONNECTIONS: usize = 1_000;

/// Of one run: the first pass follows it live, the rest from the log.
const CUTS_OF_A_RUN: usize = 125;

/// Runs that are followed at once, each by a process of its own.
const TEXTS: [&str; 4] = ["talk", "slow work", "cut once", "work"];

async fn verify(url: &str, run_id: Uuid, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.args(["stream", "verify", &run_id.to_string(), "--url", url]).args(arguments).kill_on_drop(true);
    command.output().await.unwrap()
}

/// What a proof that succeeded says.
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn every_event_comes_exactly_once_over_a_thousand_forced_reconnections() {
    let reconnections = std::env::var("BATON_RECONNECTIONS").map_or(RECONNECTIONS, |cuts| cuts.parse().unwrap());
    let app = RealApp::start(&[]).await;
    let worker = app.start_worker().await;
    let rounds = reconnections.div_ceil(TEXTS.len() * CUTS_OF_A_RUN);
    let proofs = TEXTS.map(async |text| {
        let mut reports = Vec::new();
        for _ in 0..rounds {
            let run_id = app.http.start_run(text).await;
            reports.push(report(&verify(&app.http.url, run_id, &["--json", "--cuts", &CUTS_OF_A_RUN.to_string()]).await));
            let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM events WHERE run_id = $1")
                .bind(run_id)
                .fetch_one(&app.pool)
                .await
                .unwrap();
            assert_eq!(reports[reports.len() - 1]["events"].as_i64(), Some(stored));
        }
        reports
    });
    let reports = join_all(proofs).await.concat();
    assert!(reports.iter().all(|report| report["exactly_once"] == true && report["missing"] == json!([])), "{reports:?}");
    let total = |name: &str| reports.iter().map(|report| report[name].as_u64().unwrap()).sum::<u64>();
    let [cut, inside, connections] = ["cuts", "cuts_inside_frames", "connections"].map(total);
    println!(
        "{} runs, followed {} times over {connections} connections; {cut} cut, {inside} of them inside a frame",
        reports.len(),
        total("passes")
    );
    assert!(
        usize::try_from(cut).unwrap() >= reconnections && (cut / 4..cut * 3 / 4).contains(&inside),
        "{cut} cut, {inside} inside"
    );
    drop(worker);
    app.finish().await;
}

/// A server whose stream has these frames of what is stored: 2, 3 and 4.
async fn dishonest(frames: &[i64]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let data = |sequence: i64| format!(r#"{{"sequence":{sequence},"type":"x"}}"#);
    let name = |sequence: i64| if sequence == 4 { "run.completed" } else { "run.started" };
    let stream: String = frames
        .iter()
        .map(|sequence| format!("id: {sequence}\nevent: {}\ndata: {}\n\n", name(*sequence), data(*sequence)))
        .collect();
    let page = format!(r#"{{"items":[{},{},{}],"next_cursor":null}}"#, data(2), data(3), data(4));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && socket.read_buf(&mut request).await.is_ok_and(|read| read > 0) {}
            let body = if String::from_utf8_lossy(&request).contains("after=") { &page } else { &stream };
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            let _ = socket.write_all(answer.as_bytes()).await; // the client may have cut it
        }
    });
    url
}

#[tokio::test]
async fn a_stream_that_is_not_exact_is_found_out() {
    for (frames, wrong) in [
        (&[2, 3, 4][..], ""),
        (&[2, 4], "1 missing (3)"),
        (&[2, 3, 3, 4], "1 repeated (3)"),
        (&[3, 2, 4], "1 out of order (2)"),
        (&[2, 3, 7, 4], "1 out of order (4); 1 not stored (7)"),
    ] {
        let output = verify(&dishonest(frames).await, Uuid::nil(), &["--cuts", "0"]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = if wrong.is_empty() { (Some(0), true) } else { (Some(1), said.trim_end().ends_with(wrong)) };
        assert_eq!((output.status.code(), expected.1), (expected.0, true), "{frames:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("3 stored events"), "{output:?}");
    }
    // It sends what it has already sent to whoever resumes.
    let output = verify(&dishonest(&[2, 3, 4]).await, Uuid::nil(), &["--cuts", "20", "--json"]).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && report["repeated"][0] == 2 && report["exactly_once"] == false, "{output:?}");
}

#[tokio::test]
async fn a_run_that_waits_proves_nothing_and_at_a_terminal_it_is_followed() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let run_id = app.http.start_run("publish news").await;
    app.http.run_in(run_id, "WAITING_FOR_APPROVAL").await;
    for arguments in [&[][..], &["--json"]] {
        let output = verify(&app.http.url, run_id, arguments).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert!(said.contains("WAITING_FOR_APPROVAL") && said.contains("/why"), "{said}");
    }
    let mut terminal = Terminal::agentctl(&["stream", "verify", &run_id.to_string(), "--url", &app.http.url]);
    terminal.shows("(WAITING_FOR_APPROVAL)").await;
    app.http.resolve_all(run_id, "deny").await;
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("each exactly once and in order").await;
    app.finish().await;
}

#[tokio::test]
async fn a_run_that_is_not_there_cannot_be_verified() {
    let app = RealApp::start(&[]).await;
    let output = verify(&app.http.url, Uuid::nil(), &[]).await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    app.finish().await;
}
