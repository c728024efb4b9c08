//! What a stream looks like on the wire.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::events_wire::{Wire, work};
use crate::support::{Frame, TestApp};

/// The frames as text, each without its blank line.
fn texts(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let frames = text.strip_suffix("\n\n").unwrap_or_else(|| panic!("the last frame is whole: {text:?}"));
    frames.split("\n\n").map(str::to_owned).collect()
}

fn stored_count(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| frame.id.is_some()).count()
}

/// # Panics
/// Unless these bytes are a stream as it is specified: its opening, then stored frames of the run with an id, and without
/// one live frames, heartbeats and a farewell.
fn assert_well_framed(bytes: &[u8], session_id: Uuid, run_id: Uuid) {
    let texts = texts(bytes);
    let retry = texts[0].strip_prefix("retry: ").and_then(|rest| rest.strip_suffix("\n: open"));
    let retry: u32 = retry.unwrap_or_else(|| panic!("the opening: {:?}", texts[0])).parse().unwrap();
    assert!((500..=1_500).contains(&retry), "retry: {retry}");
    let mut before = 0;
    for text in &texts[1..] {
        assert!(!text.contains('\r'), "{text:?}");
        let lines: Vec<&str> = text.split('\n').collect();
        match lines[..] {
            [": hb"] => {}
            [event, data] => assert_is_transient(event, data, run_id),
            [id, event, data] => {
                let sequence = id.strip_prefix("id: ").unwrap().parse().unwrap();
                assert_is_stored(sequence, event, data, session_id, run_id);
                assert!(sequence > before, "{sequence} came after {before}");
                before = sequence;
            }
            _ => panic!("not a frame of ours: {text:?}"),
        }
    }
}

fn assert_is_transient(event: &str, data: &str, run_id: Uuid) {
    let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    match event {
        "event: message.delta" | "event: reasoning.delta" => {
            let names: Vec<&String> = data.as_object().unwrap().keys().collect();
            assert_eq!(names, ["attempt", "message_index", "offset", "run_id", "step", "text"]);
            assert_eq!(data["run_id"], json!(run_id));
        }
        "event: stream.closing" => assert!(data["last_sequence"].is_u64(), "{data}"),
        other => panic!("`{other}` has no id"),
    }
}

fn assert_is_stored(sequence: i64, event: &str, data: &str, session_id: Uuid, run_id: Uuid) {
    let event = event.strip_prefix("event: ").unwrap();
    let text = data.strip_prefix("data: ").unwrap();
    let head = format!(
        r#"{{"run_id":"{run_id}","session_id":"{session_id}","sequence":{sequence},"type":"{event}","schema_version":1,"created_at":""#
    );
    assert!(text.starts_with(&head), "{text} should begin with {head}");
    let data: Value = serde_json::from_str(text).unwrap();
    assert_eq!(data["sequence"], json!(sequence));
    assert!(data["created_at"].as_str().unwrap().ends_with('Z'), "{text}");
}

/// The text that a browser has after these deltas of one kind and message.
fn assemble(frames: &[Frame], kind: &str, message_index: u64) -> String {
    let mut units: Vec<u16> = Vec::new();
    for frame in frames.iter().filter(|frame| frame.event() == kind) {
        let data = frame.data.as_ref().unwrap();
        if data["message_index"] == message_index {
            let offset = usize::try_from(data["offset"].as_u64().unwrap()).unwrap();
            assert!(offset <= units.len(), "a gap before {data}");
            units.truncate(offset);
            units.extend(data["text"].as_str().unwrap().encode_utf16());
        }
    }
    String::from_utf16(&units).unwrap()
}

/// What was streamed is the beginning of the text. Its last words are dropped where the whole text was faster.
fn assert_is_begun(streamed: &str, text: &str) {
    assert!(!streamed.is_empty() && text.starts_with(streamed), "{streamed:?} became {text:?}");
}

/// # Panics
/// Where a delta comes after its message.
fn assert_no_late_delta(frames: &[Frame]) {
    let mut completed = None;
    for frame in frames {
        let index = frame.data.as_ref().and_then(|data| data["message_index"].as_u64());
        match frame.event() {
            "assistant.message.completed" => completed = index,
            "message.delta" | "reasoning.delta" => assert!(index > completed, "after its message: {frame:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn gate_a6_case_c5_case_c32_transient_frames_heartbeats_and_closing_frames_carry_no_id() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "ponder").await;

    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until("what is stored already", |frames| stored_count(frames) == 2).await;
    wire.until_heartbeats(2).await;
    let watching = wire.until("the end", |frames| frames.iter().any(Frame::is_end));
    tokio::join!(work(&app), watching);
    wire.until_end().await;

    assert_well_framed(&wire.bytes, session_id, run_id);
    let frames = wire.frames();
    assert!(frames.last().unwrap().is_end(), "nothing follows the end of the run");
    assert_is_begun(&assemble(&frames, "message.delta", 0), "Räksmörgås, I would say, with 👋🏽 and a smile.");
    assert_is_begun(&assemble(&frames, "reasoning.delta", 0), "Hmm, 👋🏽 hmm, “hmm”.");
    assert_no_late_delta(&frames);

    let waiting = app.http.submit(session_id, "noop").await;
    let mut wire = Wire::open(&app.http, waiting, None).await;
    wire.until("what is stored already", |frames| stored_count(frames) == 2).await;
    tokio::join!(app.finish(), wire.until_end());
    assert_well_framed(&wire.bytes, session_id, waiting);
    let (frames, head) = (wire.frames(), wire.sequences()[1]);
    let last = frames.last().unwrap();
    assert_eq!((last.event(), last.id, &last.data), ("stream.closing", None, &Some(json!({"last_sequence": head}))));
}

#[tokio::test]
async fn gate_a6_case_c4_deltas_that_are_cut_and_repeated_carry_no_id() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    for text in ["cut once", "talk", "work"] {
        let run_id = app.http.submit(session_id, text).await;
        let mut wire = Wire::open(&app.http, run_id, None).await;
        tokio::join!(work(&app), wire.until_end());
        assert_well_framed(&wire.bytes, session_id, run_id);
        let frames = wire.frames();
        assert_no_late_delta(&frames);
        let completed = frames.iter().rfind(|frame| frame.event() == "assistant.message.completed").unwrap();
        let message = &completed.data.as_ref().unwrap()["content"][0]["text"];
        let index = completed.data.as_ref().unwrap()["message_index"].as_u64().unwrap();
        let streamed = assemble(&frames, "message.delta", index);
        assert!(message.as_str().unwrap().starts_with(&streamed), "{text}: {streamed:?} became {message}");
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_a6_case_c17_case_c18_the_answer_says_that_it_is_a_stream() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("noop").await;
    let request = app.http.request(Method::GET, &format!("/v1/runs/{run_id}/events"));
    let response = request.header("Accept-Encoding", "gzip, br, zstd").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(header("cache-control"), Some("no-store, no-transform"));
    assert_eq!(header("x-accel-buffering"), Some("no"));
    assert_eq!((header("content-encoding"), header("content-length")), (None, None));
    assert!(baton_api::HEARTBEAT <= Duration::from_secs(15), "proxies end what is silent");
    drop(response);
    app.finish().await;
}

#[tokio::test]
async fn a_finished_run_is_replayed_from_any_cursor_and_then_204() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let mut ends = vec![0];
    for text in ["noop", "work", "noop"] {
        let run_id = app.http.submit(session_id, text).await;
        work(&app).await;
        let (before, last): (i64, i64) = sqlx::query_as("SELECT first_sequence - 1, last_sequence FROM runs WHERE id = $1")
            .bind(run_id)
            .fetch_one(&app.pool)
            .await
            .unwrap();
        // A cursor of the session's other runs is one of this run, too.
        for cursor in ends.iter().copied().chain(before..last) {
            let mut wire = Wire::open(&app.http, run_id, Some(cursor)).await;
            wire.until_end().await;
            assert_well_framed(&wire.bytes, session_id, run_id);
            assert_eq!(wire.sequences(), (cursor.max(before) + 1..=last).collect::<Vec<_>>());
        }
        let mut nothing = Wire::open(&app.http, run_id, Some(last)).await;
        nothing.until_end().await;
        assert_eq!((nothing.status, nothing.bytes.len()), (StatusCode::NO_CONTENT, 0));
        ends.push(last);
    }
    let head = *ends.last().unwrap();
    let (status, error) = beyond(&app, head + 1).await;
    let details = json!({"reason": "cursor_ahead", "head": head});
    assert_eq!((status, &error["error"]["details"]), (StatusCode::CONFLICT, &details));
    app.finish().await;
}

/// The answer to a cursor, by the parameter that a browser's first connection uses, on the newest run.
async fn beyond(app: &TestApp, cursor: i64) -> (StatusCode, Value) {
    let run_id: Uuid =
        sqlx::query_scalar("SELECT id FROM runs ORDER BY first_sequence DESC LIMIT 1").fetch_one(&app.pool).await.unwrap();
    app.http.get(&format!("/v1/runs/{run_id}/events?last_event_id={cursor}")).await
}
