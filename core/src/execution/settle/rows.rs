//! The rows of calls as `unnest` takes them: arrays of one length (a shorter one would be padded with nulls).

use uuid::Uuid;

use crate::tools::CallRows;

#[derive(Default)]
pub(super) struct CallColumns {
    pub(super) new: NewColumns,
    pub(super) moved: MovedColumns,
    pub(super) artifacts: ArtifactColumns,
}

#[derive(Default)]
pub(super) struct NewColumns {
    pub(super) run_id: Vec<Uuid>,
    pub(super) id: Vec<Uuid>,
    pub(super) step: Vec<i32>,
    pub(super) index: Vec<i32>,
    pub(super) call_id: Vec<String>,
    pub(super) tool_name: Vec<String>,
    pub(super) tool_version: Vec<String>,
    pub(super) schema_sha256: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) side_effect: Vec<String>,
    pub(super) idempotency: Vec<String>,
    pub(super) key: Vec<String>,
    pub(super) status: Vec<String>,
}

#[derive(Default)]
pub(super) struct MovedColumns {
    pub(super) run_id: Vec<Uuid>,
    pub(super) id: Vec<Uuid>,
    pub(super) status: Vec<String>,
    pub(super) effect_sent: Vec<bool>,
}

#[derive(Default)]
pub(super) struct ArtifactColumns {
    pub(super) run_id: Vec<Uuid>,
    pub(super) id: Vec<Uuid>,
    pub(super) name: Vec<String>,
    pub(super) media_type: Vec<String>,
    pub(super) sha256: Vec<String>,
    pub(super) size_bytes: Vec<i64>,
}

impl CallColumns {
    pub(super) fn push(&mut self, run_id: Uuid, rows: &CallRows) {
        for invocation in &rows.new {
            let new = &mut self.new;
            new.run_id.push(run_id);
            new.id.push(invocation.id);
            new.step.push(i32::try_from(invocation.step).unwrap_or(i32::MAX));
            new.index.push(i32::try_from(invocation.index).unwrap_or(i32::MAX));
            new.call_id.push(invocation.call_id.clone());
            new.tool_name.push(invocation.tool_name.clone());
            new.tool_version.push(invocation.tool_version.clone());
            new.schema_sha256.push(invocation.schema_sha256.clone());
            new.arguments.push(invocation.arguments.clone());
            new.side_effect.push(invocation.side_effect.to_string());
            new.idempotency.push(invocation.idempotency.to_string());
            new.key.push(invocation.idempotency_key.clone());
            new.status.push(invocation.status.to_string());
        }
        for moved in &rows.moved {
            self.moved.run_id.push(run_id);
            self.moved.id.push(moved.id);
            self.moved.status.push(moved.status.to_string());
            self.moved.effect_sent.push(moved.effect_sent);
        }
        for artifact in &rows.artifacts {
            self.artifacts.run_id.push(run_id);
            self.artifacts.id.push(artifact.id);
            self.artifacts.name.push(artifact.name.clone());
            self.artifacts.media_type.push(artifact.media_type.clone());
            self.artifacts.sha256.push(artifact.sha256.clone());
            self.artifacts.size_bytes.push(artifact.size_bytes);
        }
    }
}
