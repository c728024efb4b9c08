//! The contract that every tool keeps, whatever it does.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::artifacts::{ArtifactStore, ArtifactWriter};
use crate::clock::Clock;
use crate::config::{Artifacts, Config, Demo};
use crate::fault::Faults;
use crate::outbound::Reach;
use crate::outbound::testing::{Names, Server};
use crate::tools::http_fetch::HttpFetch;
use crate::tools::{Catalogue, ReasonCode, Tool, ToolAnswer, ToolContext};

/// What becomes of marks that a tool makes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Marks {
    Recorded,
    Refused,
}

/// Tools with a world of their own: a store, a file of effects, and a page to read.
#[derive(Debug)]
pub(super) struct World {
    folder: TempDir,
    page: Server,
    pub(super) catalogue: Catalogue,
    store: ArtifactStore,
}

impl World {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let config = Config {
            artifacts: Artifacts { folder: folder.path().join("artifacts") },
            demo: Demo { effects_file: Some(folder.path().join("effects.log")) },
            ..Config::default()
        };
        let store = ArtifactStore::open(&config.artifacts, Clock::system()).unwrap();
        let builtin = Catalogue::builtin(&config).unwrap();
        let builtin = builtin.names().filter_map(|name| builtin.entry(name)).map(|entry| Arc::clone(&entry.tool));
        // The page is on this machine, where the tool itself would not go.
        let names = Arc::new(Names::default().at("page.example", ["127.0.0.1"]));
        let fetch = HttpFetch::over(names.client(Reach::Private), &["page.example".into()]).unwrap();
        let mut tools: Vec<Arc<dyn Tool>> = builtin.filter(|tool| tool.spec().name != fetch.spec().name).collect();
        tools.push(Arc::new(fetch));
        Self { catalogue: Catalogue::new(tools, &[]).unwrap(), page: Server::page("text"), store, folder }
    }

    /// Arguments with which a tool succeeds. A tool that is not here fails the test: its contract is to be looked at.
    fn example(&self, name: &str) -> Value {
        match name {
            "math.calculate" => json!({"expression": "12 * 9"}),
            "system.current_time" => json!({"timezone": "Europe/Berlin"}),
            "artifact.write" => json!({"name": "a.txt", "content": "text"}),
            "conversation.ask_user" => json!({"question": "Which one?", "choices": ["this", "that"]}),
            "http.fetch" => json!({"url": self.page.url("page.example", "/")}),
            "demo.external_write" => json!({"content": "text"}),
            other => panic!("{other} has no example"),
        }
    }

    pub(super) fn effects(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("effects.log")).unwrap_or_default()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn writer(&self, invocation_id: Uuid) -> ArtifactWriter {
        self.store.writer("tenant", Uuid::nil(), invocation_id)
    }

    /// Makes one call; its answer, and the effects that there were when it marked, once for each mark.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: &Value,
        writer: &ArtifactWriter,
        marks: Marks,
    ) -> (Result<ToolAnswer, ReasonCode>, Vec<String>) {
        let entry = self.catalogue.entry(name).unwrap();
        assert!(entry.accepts(arguments), "{name}: {arguments}");
        self.call_tool(&*entry.tool, arguments, writer, marks).await
    }

    pub(super) async fn call_tool(
        &self,
        tool: &dyn Tool,
        arguments: &Value,
        writer: &ArtifactWriter,
        marks: Marks,
    ) -> (Result<ToolAnswer, ReasonCode>, Vec<String>) {
        let (sender, mut received) = mpsc::channel(1);
        let (clock, faults) = (Clock::system(), Faults::from_env());
        let context = ToolContext { clock: &clock, idempotency_key: "key", artifacts: writer, faults: &faults, marks: sender };
        let record = async {
            let mut effects_at_marks = Vec::new();
            while let Some(mark) = received.recv().await {
                effects_at_marks.push(self.effects());
                match marks {
                    Marks::Recorded => mark.send(()).unwrap(),
                    Marks::Refused => drop(mark),
                }
            }
            effects_at_marks
        };
        tokio::join!(tool.call(arguments, context), record)
    }
}

#[tokio::test]
async fn what_leaves_a_mark_outside_says_so_before() {
    let world = World::new();
    for name in world.catalogue.names() {
        let entry = world.catalogue.entry(name).unwrap();
        let before = world.effects();
        let (answer, effects_at_marks) =
            world.call(name, &world.example(name), &world.writer(Uuid::max()), Marks::Recorded).await;
        match answer {
            Ok(ToolAnswer::Result { value, .. }) => {
                assert!(entry.result_fits(&value), "{name}: {value}");
                assert!(value.to_string().len() <= entry.spec().max_output_bytes, "{name}");
            }
            Ok(ToolAnswer::Ask(_)) => assert_eq!(name, "conversation.ask_user"),
            Err(reason) => panic!("{name}: {reason}"),
        }
        if entry.spec().idempotency.marks_effects() {
            assert_eq!(effects_at_marks, [before], "{name}: marks once, before the effect");
        } else {
            assert!(effects_at_marks.is_empty() && world.effects() == before, "{name}");
        }
    }
}

#[tokio::test]
async fn what_cannot_say_so_sends_nothing() {
    let world = World::new();
    for name in world.catalogue.names() {
        if world.catalogue.entry(name).unwrap().spec().idempotency.marks_effects() {
            let (answer, _) = world.call(name, &world.example(name), &world.writer(Uuid::max()), Marks::Refused).await;
            assert_eq!(answer, Err(ReasonCode::Cancelled), "{name}");
        }
    }
    assert!(!world.folder().join("effects.log").exists());
}

#[tokio::test]
async fn unknown_arguments_are_refused() {
    let world = World::new();
    for name in world.catalogue.names() {
        let entry = world.catalogue.entry(name).unwrap();
        let mut arguments = world.example(name);
        arguments["unknown"] = json!(1);
        assert!(!entry.accepts(&arguments) && !entry.accepts(&json!({})), "{name}");
    }
}

#[tokio::test]
async fn a_question_goes_out_as_it_was_asked() {
    let world = World::new();
    let name = "conversation.ask_user";
    let (answer, _) = world.call(name, &world.example(name), &world.writer(Uuid::max()), Marks::Refused).await;
    let Ok(ToolAnswer::Ask(question)) = answer else { panic!("{answer:?}") };
    assert_eq!((question.question.as_str(), question.choices), ("Which one?", Some(vec!["this".into(), "that".into()])));
    let entry = world.catalogue.entry(name).unwrap();
    for refused in [json!({"question": ""}), json!({"question": "?", "choices": []}), json!({"question": "?", "choices": [""]})] {
        assert!(!entry.accepts(&refused), "{refused}");
    }
    assert!(!entry.accepts(&json!({"question": "?", "choices": vec!["a"; 21]})));
    assert!(!entry.accepts(&json!({"question": "a".repeat(4_001)})));
}
