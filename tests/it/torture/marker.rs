//! What a torture worker hides in its events, so that the log itself tells who wrote what, and whether all of it is there. A
//! write begins with a marker; events of calls have no room for one, and are counted by it.

use std::fmt;
use std::str::FromStr;

use baton_core::events::Event;

/// One write of a worker. Two writes of one run are never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Write {
    pub(super) epoch: i32,
    /// Of the run's writes by workers, from 1; also the step.
    pub(super) number: u32,
    /// Tells this try from another under the same number.
    pub(super) nonce: u32,
}

/// The place of an event within its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) write: Write,
    pub(super) index: usize,
    /// Events of the write, with those that have no room for a marker.
    pub(super) count: usize,
}

impl Marker {
    /// Of an event that has room for it; only workers write those.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let text = match event {
            Event::ModelRequestStarted(request) => &request.model,
            Event::ModelResponseFailed(response) => &response.code,
            Event::ModelResponseCompleted(response) => &response.text,
            _ => return None,
        };
        Some(text.parse().unwrap())
    }

    /// Hides it in an event that has room for it.
    pub(super) fn hide_in(self, event: &mut Event) {
        match event {
            Event::ModelRequestStarted(request) => request.model = self.to_string(),
            Event::ModelResponseFailed(response) => response.code = self.to_string(),
            Event::ModelResponseCompleted(response) => response.text = self.to_string(),
            _ => {}
        }
    }
}

/// Whether only workers write it, as a part of a write that begins with a marker.
pub(super) fn is_part_of_a_write(event: &Event) -> bool {
    matches!(
        event,
        Event::ToolCallProposed(_)
            | Event::ToolCallAuthorized(_)
            | Event::ToolCallDenied(_)
            | Event::ToolCallStarted(_)
            | Event::ToolCallCompleted(_)
            | Event::ToolCallFailed(_)
            | Event::ApprovalRequested(_)
            | Event::RunWaitingForApproval(_)
            | Event::RunWaitingForUser(_)
    )
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write { epoch, number, nonce } = self.write;
        write!(f, "{epoch}/{number}/{nonce}/{}/{}", self.index, self.count)
    }
}

impl FromStr for Marker {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or_default();
        let write = Write { epoch: next().parse()?, number: next().parse()?, nonce: next().parse()? };
        Ok(Self { write, index: next().parse()?, count: next().parse()? })
    }
}
