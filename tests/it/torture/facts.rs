//! What was acknowledged to somebody, and therefore must be found in the end.

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
}

/// A key that lasts, and the run or session that it was said to have created.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) tenant: String,
    pub(super) key: String,
    pub(super) created: Uuid,
}
