//! Calls that an earlier execution had started, and whose result nobody knows.

use baton_core::canonical;
use baton_core::execution::CallStage;
use baton_core::tools::pipeline::Assessment;
use baton_core::tools::{Invocation, ReasonCode, Recovery, Void, recover};

use super::decide::{Call, Writing, assess};
use crate::run_loop::{Flow, RunContext};

/// Puts on record what may not be made again, be it for what it may have done or since it would not be allowed any more. What
/// may is left as it is: it is started, and will be executed.
pub(super) async fn settle(context: &mut RunContext<'_>) -> Flow<()> {
    let mut writing = Writing::default();
    for call in Call::all(context, |stage| *stage == CallStage::Started) {
        let row = context.invocations.get(&call.proposal.invocation_id);
        let may_have_been_sent = row.is_some_and(Invocation::may_have_been_sent);
        let arguments = canonical::text(&call.proposal.arguments).unwrap_or_default();
        match recover(&context.pipeline.tools, row, &arguments) {
            Recovery::Uncertain => writing.uncertain(&call),
            Recovery::NotFound => writing.refuse(&call, Assessment::Failed { reason: ReasonCode::ToolNotFound }),
            Recovery::RunAgain => match assess(context, &call).await? {
                Assessment::Authorized { .. } => {}
                _ if may_have_been_sent => writing.uncertain(&call),
                Assessment::NeedsApproval { decision, .. } => writing.refuse(
                    &call,
                    // Nothing was done. Whoever wants it asks for it anew, and then somebody else is asked, too.
                    Assessment::Denied {
                        invocation: None,
                        reason: ReasonCode::ApprovalInvalidated,
                        policy_version: decision.policy_version,
                        void: Some(Void::PolicyChanged),
                    },
                ),
                refused => writing.refuse(&call, refused),
            },
        }
    }
    writing.append(context).await
}
