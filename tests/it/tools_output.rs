//! What tools give back, however they misbehave: shown whole, as an excerpt, or not at all, and the run goes on.

use baton_core::artifacts::ArtifactStore;
use baton_core::canonical;
use futures::TryStreamExt;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Follower, Gates, OUTPUT_BYTES_MAX, TestApp, bodies_of, calls_of, id, long_text, test_tools};

async fn start() -> TestApp {
    TestApp::start_with_tools(|effects| test_tools(effects, &Gates::new()), |_| {}).await
}

#[tokio::test]
async fn case_j11_a_long_result_is_an_artifact_and_an_excerpt() {
    let app = start().await;
    let run_id = app.http.start_run_of("trusted", "long").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");

    let whole = json!(long_text()).to_string();
    let completed = &bodies_of(&app.pool, run_id, "tool.call.completed").await[0];
    assert_eq!(completed["truncated"], true);
    let shown = completed["result"].as_str().unwrap();
    let [head, elision, tail] = shown.lines().collect::<Vec<_>>().try_into().unwrap();
    assert!(head.starts_with("\"HEAD") && whole.starts_with(head), "{head}");
    assert!(tail.ends_with("TAIL\"") && whole.ends_with(tail), "{tail}");
    // Cut at a character, and no further from the limit than one character is long.
    for (part, percent) in [(head, 60), (tail, 20)] {
        let limit = OUTPUT_BYTES_MAX * percent / 100;
        assert!((limit - 3..=limit).contains(&part.len()), "{} of {limit}", part.len());
    }
    let left_out = whole.len() - head.len() - tail.len();
    assert_eq!(elision, format!("[… {left_out} bytes left out; the whole is in the artifact …]"));

    let created = &bodies_of(&app.pool, run_id, "artifact.created").await[0];
    assert_eq!(created["artifact_id"], completed["artifact_id"]);
    assert_eq!(
        (&created["name"], &created["media_type"], &created["size_bytes"]),
        (&json!("test.long-result.json"), &json!("application/json"), &json!(whole.len()))
    );
    let (artifact, session, sha256, size): (Uuid, Uuid, String, i64) =
        sqlx::query_as("SELECT id, session_id, sha256, size_bytes FROM artifacts WHERE run_id = $1")
            .bind(run_id)
            .fetch_one(&app.pool)
            .await
            .unwrap();
    assert_eq!((artifact, sha256.as_str()), (id(&created["artifact_id"]), canonical::sha256_hex(&whole).as_str()));
    assert_eq!(size, i64::try_from(whole.len()).unwrap());
    let store = ArtifactStore::open(&app.config.artifacts, app.clock.clone()).unwrap();
    let chunks: Vec<_> = store.read("dev", session, artifact, &sha256).await.unwrap().try_collect().await.unwrap();
    assert_eq!(chunks.concat(), whole.as_bytes());
    app.finish().await;
}

/// Nothing that Postgres could not hold comes near it.
#[tokio::test]
async fn case_j1_a_result_with_nul_is_none_and_its_spelling_is_text() {
    let app = start().await;
    let run_id = app.http.start_run_of("trusted", "nul").await;
    app.work().await;
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    let told = |kind: &str| follower.frames.iter().find(|frame| frame.event() == kind).unwrap().data.clone().unwrap();
    assert_eq!(told("tool.call.failed")["reason_code"], "tool_result_invalid");
    assert_eq!(told("tool.call.completed")["result"], "\\u0000");
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    app.finish().await;
}

#[tokio::test]
async fn tools_that_misbehave_fail_with_their_reason_and_the_run_goes_on() {
    let app = start().await;
    let run_id = app.http.start_run_of("trusted", "misbehave").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    assert_eq!(
        calls_of(&app.pool, run_id).await,
        [
            "test.unknown UNCERTAIN",
            "test.fails FAILED",
            "test.panics FAILED",
            "test.panics_late UNCERTAIN",
            "test.never FAILED",
            "test.never_late UNCERTAIN",
            "test.too_long FAILED",
            "test.wrong FAILED",
        ]
    );
    let failed = bodies_of(&app.pool, run_id, "tool.call.failed").await;
    let reasons: Vec<&Value> = failed.iter().map(|body| &body["reason_code"]).collect();
    assert_eq!(
        reasons,
        ["tool_execution_error", "tool_execution_error", "tool_timeout", "tool_output_too_large", "tool_result_invalid"]
    );
    assert!(bodies_of(&app.pool, run_id, "artifact.created").await.is_empty(), "nothing is kept of what is cut off");
    assert_eq!(app.effects().len(), 2, "of the two that had marked theirs");
    let answer = &bodies_of(&app.pool, run_id, "assistant.message.completed").await[0]["content"][0]["text"];
    assert_eq!(answer, "Went on.");
    app.finish().await;
}
