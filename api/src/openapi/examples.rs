//! The story that all examples tell: a run that published a note, for which it had to ask.

use serde_json::{Value, json};
use uuid::Uuid;

pub(super) const SESSION_ID: &str = "01932f6e-0c4a-7c3e-9f0a-5f0d7c1b2a10";
pub(super) const RUN_ID: &str = "01932f6e-1d5b-7a8f-8e1b-6a1e8d2c3b21";
pub(super) const APPROVAL_ID: &str = "01932f6e-2e6c-7b9a-9d2c-7b2f9e3d4c32";
pub(super) const ARTIFACT_ID: &str = "01932f6e-3f7d-7cab-8c3d-8c3faf4e5d43";
pub(super) const WORKER_ID: &str = "01932f6d-5b9f-7ecd-8a5f-ae5fcf6a7f65";
pub(super) const REQUEST_ID: &str = "01932f6e-6cab-7fde-996a-bf6adf7b8a76";
pub(super) const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

const BEGAN: &str = "2026-11-14T09:30:00.123456Z";
const MOVED: &str = "2026-11-14T09:30:01.5Z";
const ENDS: &str = "2026-11-16T09:30:00.123456Z";

pub(super) fn id(text: &str) -> Uuid {
    text.parse().expect("the identifiers above are UUIDs")
}

pub(super) fn session() -> Value {
    json!({
        "id": SESSION_ID, "principal_id": "dev", "agent_id": "demo", "agent_version": "1", "status": "ACTIVE",
        "title": "Publish the release note", "metadata": {"ticket": "DOC-17"}, "active_run_id": RUN_ID, "last_run_id": RUN_ID,
        "created_at": BEGAN, "updated_at": BEGAN,
    })
}

pub(super) fn content(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

pub(super) fn transcript_item() -> Value {
    json!({
        "sequence": 2, "run_id": RUN_ID, "role": "user", "kind": "message", "content": content("Publish the release note"),
        "created_at": BEGAN,
    })
}

pub(super) fn submitted(status: &str) -> Value {
    json!({"run_id": RUN_ID, "session_id": SESSION_ID, "status": status})
}

pub(super) fn run() -> Value {
    json!({
        "id": RUN_ID, "session_id": SESSION_ID, "parent_run_id": null, "agent_id": "demo", "agent_version": "1",
        "status": "WAITING_FOR_APPROVAL", "priority": "INTERACTIVE", "metadata": {}, "step_count": 1,
        "usage": usage(),
        "limits": {
            "max_steps": 32, "max_model_calls": 64, "max_tool_calls": 128, "max_input_tokens": null, "max_output_tokens": null,
            "max_cost_usd": "0.50", "deadline_at": ENDS,
        },
        "failure": null, "waiting_for": {"kind": "approval", "approval_ids": [APPROVAL_ID]}, "cancel": null,
        "created_at": BEGAN, "started_at": BEGAN, "finished_at": null, "updated_at": MOVED,
    })
}

pub(super) fn cancelled(status: &str) -> Value {
    let ended = if status == "CANCELLED" { json!(MOVED) } else { Value::Null };
    let mut run = run();
    run["status"] = status.into();
    run["waiting_for"] = Value::Null;
    run["cancel"] = json!({"requested_at": MOVED, "observed_at": null, "settled_at": ended});
    run["finished_at"] = ended;
    run
}

fn usage() -> Value {
    json!({
        "input_tokens": 180, "cached_input_tokens": 0, "cache_write_input_tokens": 0, "output_tokens": 24, "reasoning_tokens": 0,
        "model_calls": 1, "tool_calls": 0, "cost_usd": "0.000312",
    })
}

pub(super) fn event() -> Value {
    json!({
        "run_id": RUN_ID, "session_id": SESSION_ID, "sequence": 3, "type": "run.queued", "schema_version": 1, "created_at": BEGAN,
        "priority": "INTERACTIVE",
    })
}

pub(super) fn why() -> Value {
    json!({
        "status": "WAITING_FOR_APPROVAL", "because": "waiting_for_approval", "since": MOVED, "until": ENDS,
        "approval_ids": [APPROVAL_ID], "next": "Somebody has to approve or deny what it wants to do.",
    })
}

pub(super) fn approval(status: &str) -> Value {
    let (by, at, decision) = match status {
        "PENDING" => (Value::Null, Value::Null, Value::Null),
        _ => (json!("ada"), json!(MOVED), json!("approve_once")),
    };
    json!({
        "id": APPROVAL_ID, "run_id": RUN_ID, "session_id": SESSION_ID, "status": status, "tool_name": "demo.external_write",
        "action_summary": "Write \"Release 1.2\" to the outside", "arguments": {"message": "Release 1.2"}, "risk": "high",
        "policy_reason": "Writes to the outside are approved by a person.", "expires_at": ENDS, "created_at": MOVED,
        "resolved_at": at, "resolved_by": by, "decision": decision,
    })
}

pub(super) fn artifact() -> Value {
    json!({
        "id": ARTIFACT_ID, "session_id": SESSION_ID, "run_id": RUN_ID, "name": "note.md", "media_type": "text/markdown",
        "sha256": SHA256, "size_bytes": 412, "metadata": {}, "created_at": MOVED,
    })
}

pub(super) fn agent() -> Value {
    json!({
        "id": "demo", "version": "1", "name": "Demo", "model": "scripted", "tools": ["math.calculate", "artifact.write"],
        "limits": {"max_steps": 32, "max_model_calls": 64, "max_tool_calls": 128, "deadline_seconds": 172_800},
    })
}

pub(super) fn queue() -> Value {
    let class = |priority: &str, depth: u8, age: Option<f64>, running: u8| json!({"priority": priority, "depth": depth, "oldest_age_seconds": age, "running": running});
    json!({
        "classes": [class("INTERACTIVE", 2, Some(0.4), 5), class("ASYNC", 0, None, 1), class("MAINTENANCE", 0, None, 0)],
        "workers": [{
            "id": WORKER_ID, "version": "0.1.0", "slots": {"interactive": 2, "async": 0, "maintenance": 0, "shared": 30},
            "started_at": BEGAN, "seen_at": MOVED,
        }],
    })
}

pub(super) fn page(item: &Value) -> Value {
    json!({"items": [item], "next_cursor": null})
}
