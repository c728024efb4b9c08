//! What an approval is worth when the world has changed between asking and doing: it is for exact bytes, one version of a
//! tool, one policy, one agent and the rights of one run. Anything else is not executed, and everybody is told.

use std::path::PathBuf;
use std::sync::Arc;

use baton_core::config::Config;
use baton_core::fault::{Action, Faults, Point};
use baton_core::tools::Tool;
use baton_worker::Worker;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{Gates, TestApp, bodies_of, calls_of, changed_write, eventually, test_tools};

/// What is different when the approved call is to be made.
#[derive(Debug, Clone, Copy)]
enum Change {
    Nothing,
    ToolVersion,
    ToolSchema,
    ToolDisabled,
    ToolRemoved,
    /// The default profile's decision for the class, and that of a class that nobody uses.
    Policy(&'static str, &'static str),
    /// Behind our back: a statement with the run's id.
    Rows(&'static str),
}

/// When it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    WhilePending,
    Approved,
    /// Taken up and authorized; then the process dies.
    Authorized,
}

const EDITED_ARGUMENTS: Change = Change::Rows(r#"UPDATE tool_invocations SET arguments = '{"tag":"edited"}' WHERE run_id = $1"#);
const FEWER_SCOPES: Change = Change::Rows("UPDATE runs SET scopes = array_remove(scopes, 'session.read') WHERE id = $1");
const WITHOUT_THE_RIGHT: Change = Change::Rows("UPDATE runs SET scopes = array_remove(scopes, 'demo.write') WHERE id = $1");
const OTHER_AGENT_VERSION: Change = Change::Rows("UPDATE approvals SET agent_version = '0' WHERE run_id = $1");

impl Change {
    /// The reason for which the approval is void; none where the call is made.
    fn voids(self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Policy("allow", _) => None,
            Self::ToolVersion => Some("tool_version_changed"),
            Self::ToolSchema => Some("schema_changed"),
            Self::ToolDisabled => Some("tool_disabled"),
            Self::ToolRemoved => Some("tool_removed"),
            Self::Policy(..) => Some("policy_changed"),
            Self::Rows(_) => None, // said by the test
        }
    }

    fn tools(self, app: &TestApp) -> Vec<Arc<dyn Tool>> {
        let effects = app.effects_file();
        match self {
            Self::ToolVersion => vec![changed_write(&effects, |spec| spec.version = "2")],
            Self::ToolSchema => vec![changed_write(&effects, |spec| spec.input_schema["properties"]["more"] = json!({}))],
            Self::ToolRemoved => Vec::new(),
            _ => vec![changed_write(&effects, |_| {})],
        }
    }

    fn adjust(self, config: &mut Config, folder: &TempDir) {
        match self {
            Self::ToolDisabled => config.tools.disabled = vec!["test.write".into()],
            Self::Policy(external_write, publication) => {
                let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../policies/default.toml");
                let text = std::fs::read_to_string(default).unwrap();
                let text =
                    text.replace("external_write = \"require_approval\"", &format!("external_write = \"{external_write}\""));
                let text = text.replace("publication = \"require_approval\"", &format!("publication = \"{publication}\""));
                std::fs::write(folder.path().join("default.toml"), text).unwrap();
                config.policy.folder = Some(folder.path().to_owned());
            }
            _ => {}
        }
    }

    async fn edit(self, app: &TestApp, run_id: Uuid) {
        if let Self::Rows(statement) = self {
            let edited = sqlx::query(statement).bind(run_id).execute(&app.pool).await.unwrap();
            assert_eq!(edited.rows_affected(), 1, "{statement}");
        }
    }
}

async fn start() -> TestApp {
    TestApp::start_with_tools(|effects| test_tools(effects, &Gates::new()), |_| {}).await
}

async fn check(app: &TestApp, change: Change, moment: Moment, voids: Option<&str>) {
    let what = format!("{change:?}, {moment:?}");
    let before = app.effects().len();
    let run_id = app.http.start_run_of("gated", "write").await;
    app.work().await;
    let approvals = app.http.open_approvals(run_id).await;
    assert_eq!(approvals[0]["arguments"], json!({"tag": "approved"}));
    if moment == Moment::WhilePending {
        change.edit(app, run_id).await;
    }
    app.http.resolve(&approvals[0], "approve_once").await;
    if moment == Moment::Authorized {
        authorize_and_die(app, run_id).await;
    }
    if moment != Moment::WhilePending {
        change.edit(app, run_id).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let tools = change.tools(app);
    let heir = app.another_worker_with(Faults::default(), &tools, |config| change.adjust(config, &folder)).await;
    take_up(&heir).await;

    let run = app.http.run(run_id).await;
    assert_eq!(run["status"], "COMPLETED", "{what}: {run}");
    let invalidated = bodies_of(&app.pool, run_id, "approval.invalidated").await;
    let answer = &bodies_of(&app.pool, run_id, "assistant.message.completed").await[0]["content"][0]["text"];
    let approval = bodies_of(&app.pool, run_id, "approval.requested").await[0]["approval_id"].clone();
    match voids {
        None => {
            assert_eq!(calls_of(&app.pool, run_id).await, ["test.write COMPLETED"], "{what}");
            assert_eq!(app.effects().len(), before + 1, "{what}");
            assert!(invalidated.is_empty(), "{what}: {invalidated:?}");
        }
        Some(reason) => {
            assert_eq!(app.effects().len(), before, "{what}: executed");
            assert_eq!(calls_of(&app.pool, run_id).await, ["test.write DENIED"], "{what}");
            assert_eq!(invalidated, [json!({"approval_id": approval, "reason": reason})], "{what}");
            let denied = bodies_of(&app.pool, run_id, "tool.call.denied").await;
            assert_eq!(denied[0]["reason_code"], "approval_invalidated", "{what}");
            let told = "Done: The approval of this call is void, since what it was given for has changed.";
            assert_eq!(answer, told, "{what}: what the model was told");
        }
    }
}

async fn take_up(worker: &Worker) {
    worker.renew().await.unwrap();
    while worker.tick().await.unwrap() > 0 {}
}

/// A process takes the run up, puts on record that the call may be made, and dies.
async fn authorize_and_die(app: &TestApp, run_id: Uuid) {
    let faults = Faults::default();
    faults.arm(Point::IntentRecorded, Action::Pause(Arc::new(Semaphore::new(0))), 1);
    let doomed = app.another_worker(faults.clone()).await;
    let execution = tokio::spawn(async move { doomed.tick().await.unwrap() });
    eventually("it is authorized", || async { (!faults.is_armed(Point::IntentRecorded)).then_some(()) }).await;
    execution.abort();
    app.lose_workers(run_id).await;
}

#[tokio::test]
async fn gate_c9_case_d12_a_change_of_tool_or_policy_voids_an_approval_or_decides_it_again() {
    let app = start().await;
    for moment in [Moment::Approved, Moment::Authorized] {
        for change in [
            Change::Nothing,
            Change::ToolVersion,
            Change::ToolSchema,
            Change::ToolDisabled,
            Change::ToolRemoved,
            Change::Policy("allow", "require_approval"),
            Change::Policy("require_approval", "deny"),
            Change::Policy("deny", "require_approval"),
        ] {
            check(&app, change, moment, change.voids()).await;
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_c9_case_d10_what_is_edited_behind_our_back_is_not_executed() {
    let app = start().await;
    for moment in [Moment::WhilePending, Moment::Approved, Moment::Authorized] {
        for (change, reason) in [
            (EDITED_ARGUMENTS, "arguments_changed"),
            (FEWER_SCOPES, "scopes_changed"),
            (WITHOUT_THE_RIGHT, "scopes_changed"),
            (OTHER_AGENT_VERSION, "agent_changed"),
        ] {
            check(&app, change, moment, Some(reason)).await;
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_c9_case_d10_a_call_that_needs_nobody_is_not_made_with_edited_arguments_either() {
    let app = start().await;
    let run_id = app.http.start_run_of("trusted", "gate the second").await;
    app.work().await;
    Change::Rows(r#"UPDATE tool_invocations SET arguments = '{"tag":"edited"}' WHERE run_id = $1 AND call_index = 0"#)
        .edit(&app, run_id)
        .await;
    app.http.resolve_all(run_id, "approve_once").await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    assert!(app.effects().iter().all(|effect| !effect.contains("edited")), "{:?}", app.effects());
    let calls = ["test.idempotent FAILED", "demo.external_write COMPLETED", "test.idempotent COMPLETED"];
    assert_eq!(calls_of(&app.pool, run_id).await, calls);
    app.finish().await;
}
