//! What was acknowledged to somebody, and therefore must be found in the end.

use baton_core::approvals::ApprovalStatus;
use uuid::Uuid;

use super::marker::Write;

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Runs, and the session of each.
    pub(super) submitted: Vec<(Uuid, Uuid)>,
    pub(super) created: Vec<Uuid>,
    pub(super) keys: Vec<Key>,
    /// Runs whose request to cancel was answered by their end.
    pub(super) cancelled: Vec<Uuid>,
    /// Runs whose request to cancel was taken down.
    pub(super) cancel_requested: Vec<Uuid>,
    /// Runs, and the epoch that somebody was told to be his.
    pub(super) claimed: Vec<(Uuid, i32)>,
    pub(super) written: Vec<(Uuid, Write)>,
    /// Runs, and texts that nobody else says: a message that made the run or answered its question.
    pub(super) said: Vec<(Uuid, String)>,
    pub(super) answered: Vec<Answered>,
    pub(super) decided: Vec<Decided>,
}

/// A question of a run that was said to have this answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) run: Uuid,
    pub(super) question: Uuid,
    pub(super) text: String,
}

/// An approval that was said to have come to this; by whom, where a person decided it.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) approval: Uuid,
    pub(super) status: ApprovalStatus,
    pub(super) by: Option<String>,
}

/// A key that lasts, and the run or session that it was said to have created.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) tenant: String,
    pub(super) key: String,
    pub(super) created: Uuid,
}
