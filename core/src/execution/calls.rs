//! The calls of a run's last turn that have no result yet: what the fold knows of each.

use serde_json::Value;
use uuid::Uuid;

use crate::canonical;
use crate::content::ContentBlock;
use crate::events::{Decision, ToolCall};

/// A call that the model asked for and that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    pub call: ToolCall,
    pub step: u32,
    /// None before it is on record.
    pub proposal: Option<Proposal>,
    /// What a person was asked about it.
    pub approval: Option<AskedApproval>,
    pub stage: CallStage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    pub invocation_id: Uuid,
    /// Null where the model's text was not a JSON object.
    pub arguments: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedApproval {
    pub id: Uuid,
    /// None while nobody has answered.
    pub decision: Option<Decision>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallStage {
    /// In the model's answer, not yet in the log as a proposal.
    Requested,
    /// On record; whether it may be made is to be decided, or decided again.
    Proposed,
    Authorized,
    Started,
    /// It has asked the user; None while nobody has answered.
    AskedUser {
        question_id: Uuid,
        answer: Option<Vec<ContentBlock>>,
    },
}

impl PendingCall {
    pub(super) fn requested(call: ToolCall, step: u32) -> Self {
        Self { call, step, proposal: None, approval: None, stage: CallStage::Requested }
    }
}

/// How often in a row the same thing has come of the same call: a model that goes in circles is stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repetition {
    /// Of the call's name, its arguments and what came of it.
    digest: String,
    pub times: u32,
}

impl Repetition {
    pub(super) fn count(&mut self, pending: &PendingCall, came_of_it: &str) {
        let arguments = pending.proposal.as_ref().map(|proposal| proposal.arguments.to_string()).unwrap_or_default();
        let digest = canonical::sha256_hex(&format!("{}\n{arguments}\n{came_of_it}", pending.call.name));
        self.times = if digest == self.digest { self.times + 1 } else { 1 };
        self.digest = digest;
    }
}
