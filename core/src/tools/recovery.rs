//! What becomes of a call that a crash interrupted: whether it may be made again is a matter of its class and its watermark.

use crate::tools::catalogue::{Catalogue, Entry};
use crate::tools::invocation::Invocation;
use crate::tools::spec::Idempotency;

/// What whoever takes the run up does with a call that had started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Under the same identifier and the same key.
    RunAgain,
    /// An effect may have happened. It is not repeated, and everybody is told.
    Uncertain,
    /// Nothing was sent, and this build does not have the tool any more.
    NotFound,
}

/// `arguments` is the canonical text of what the log has; a row that is missing, or has others, is [`Recovery::Uncertain`]:
/// somebody has edited rows, and nothing can be known.
pub fn recover(tools: &Catalogue, invocation: Option<&Invocation>, arguments: &str) -> Recovery {
    let Some(invocation) = invocation.filter(|invocation| invocation.arguments == arguments) else { return Recovery::Uncertain };
    let may_repeat = match invocation.idempotency {
        Idempotency::ReadOnly | Idempotency::Idempotent | Idempotency::ConditionallyIdempotent => true,
        Idempotency::NonIdempotent => !invocation.effect_sent,
    };
    // Another version may do something else with the same key.
    let is_same = |entry: &Entry| entry.spec().version == invocation.tool_version;
    match tools.entry(&invocation.tool_name).filter(|entry| is_same(entry)) {
        Some(_) if may_repeat => Recovery::RunAgain,
        Some(_) => Recovery::Uncertain,
        None if invocation.may_have_been_sent() => Recovery::Uncertain,
        None => Recovery::NotFound,
    }
}

#[cfg(test)]
mod tests;
