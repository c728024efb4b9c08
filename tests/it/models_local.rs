//! A real model on this machine, at the server that `BATON_LOCAL_MODEL_URL` names: docs/guides/models.md has the commands. It talks
//! nonsense, so that only the form of what it says counts.

use std::env;
use std::time::Duration;

use baton_core::config::{Config, Provider, ProviderKind};
use serde_json::{Value, json};

use crate::events_wire::{Wire, Working};
use crate::support::{Frame, TestApp, agents_folder, bodies_of, calls_of, changed_write};

const SERVER_VARIABLE: &str = "BATON_LOCAL_MODEL_URL";

/// For a hundred tokens at one a second, which is slow even for a machine that builds something at the same time.
const RUN_MAX: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_real_model_is_read_while_it_speaks() {
    let Some(base_url) = server() else { return };
    let app = TestApp::start_with(|config| ask(config, base_url)).await;
    let run_id = app.http.start_run_of("talk", "Tell me about rivers.").await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until_heartbeats(1).await; // it follows
    let working = Working::start(&app.worker);
    wire.until_within(RUN_MAX, "the run's end", |frames| frames.iter().any(Frame::is_end)).await;
    working.stop().await;
    let run = app.http.run(run_id).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(model_calls(&app).await, ["local reported"], "it has said how many tokens");
    let said = bodies_of(&app.pool, run_id, "assistant.message.completed").await;
    let said = said[0]["content"][0]["text"].as_str().unwrap();
    let frames = wire.frames();
    let whole = frames.iter().position(|frame| frame.event() == "model.response.completed").unwrap();
    let shown: Vec<&str> = frames[..whole].iter().filter_map(piece).collect();
    assert!(shown.len() > 1, "more than one piece before the answer was whole: {frames:#?}");
    assert_eq!(shown.concat(), said);
    app.finish().await;
}

#[tokio::test]
async fn a_real_model_calls_a_tool_as_its_schema_says() {
    let Some(base_url) = server() else { return };
    let schema = json!({
        "type": "object",
        "properties": {"tag": {"type": "string", "enum": ["red", "green", "blue"]}, "is_urgent": {"type": "boolean"}},
        "required": ["tag", "is_urgent"],
        "additionalProperties": false,
    });
    let tools = |effects: &_| vec![changed_write(effects, |spec| spec.input_schema = schema.clone())];
    let app = TestApp::start_with_tools(tools, |config| ask(config, base_url)).await;
    let run_id = app.http.start_run_of("paint", "Paint it green.").await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    let working = Working::start(&app.worker);
    wire.until_within(RUN_MAX, "the run's end", |frames| frames.iter().any(Frame::is_end)).await;
    working.stop().await;
    let run = app.http.run(run_id).await;
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(model_calls(&app).await, ["local reported", "local reported"], "the call, and what it says to its result");
    assert_eq!(calls_of(&app.pool, run_id).await, ["test.write COMPLETED"]);
    let turns = bodies_of(&app.pool, run_id, "model.response.completed").await;
    assert_eq!(turns[0]["stop"], "tool_use", "{turns:?}");
    assert_ne!(turns[1]["text"], "", "{turns:?}");
    let arguments: Value = serde_json::from_str(turns[0]["tool_calls"][0]["arguments_raw"].as_str().unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &arguments), "{arguments}");
    let effects = app.effects();
    let effect: Value = serde_json::from_str(&effects[0]).unwrap();
    assert_eq!((effects.len(), &effect["tag"]), (1, &arguments["tag"]), "made once, as the model wanted it");
    app.finish().await;
}

/// None, and said so: no server is named.
fn server() -> Option<String> {
    let url = env::var(SERVER_VARIABLE).ok();
    if url.is_none() {
        eprintln!("skipped: {SERVER_VARIABLE} names no server of a model, see docs/guides/models.md");
    }
    url
}

fn ask(config: &mut Config, base_url: String) {
    config.agents.folder = Some(agents_folder().join("local"));
    let provider =
        Provider { kind: ProviderKind::OpenaiChat, base_url, api_key_env: None, private_endpoint: true, done_is_end: false };
    config.providers.0.insert("local".into(), provider);
    let policy =
        json!({"provider": "local", "model": "local", "max_output_tokens": 256, "prices": {"input": "1", "output": "2"}});
    config.models.insert("local".into(), serde_json::from_value(policy).unwrap());
}

/// Of the text, what was shown without being stored.
fn piece(frame: &Frame) -> Option<&str> {
    let is_shown = frame.id.is_none() && frame.event() == "message.delta";
    is_shown.then(|| frame.data.as_ref().unwrap()["text"].as_str().unwrap())
}

/// Each with its provider, and how its cost is known.
async fn model_calls(app: &TestApp) -> Vec<String> {
    let query = sqlx::query_scalar("SELECT provider || ' ' || cost_source FROM model_calls ORDER BY step, attempt");
    query.fetch_all(&app.pool).await.unwrap()
}
