//! Whether the calls of a turn may be made: steps 1 to 7 of the pipeline for every one of them, then step 8, or the one
//! transaction that lets the run wait for a person.

use baton_core::events::{
    ApprovalInvalidated, ApprovalRequested, Event, RunWaitingForApproval, Stop, ToolCallDecided, ToolCallFailed, ToolCallMarked,
    ToolCallProposed,
};
use baton_core::execution::{Asks, CallStage, NewApproval, PendingCall, Proposal};
use baton_core::fault::Point;
use baton_core::runs::FailureClass;
use baton_core::tools::pipeline::{Assessment, Proposed, arguments_of};
use baton_core::tools::{CallRows, Invocation, InvocationStatus, Moved, ReasonCode};
use uuid::Uuid;

use crate::run_loop::{Flow, Outcome, RunContext, Suspending};

/// Decides what is not decided, or has to be decided again. Returns when everything that may be made is on record as
/// authorized; else the run has its outcome.
pub(super) async fn decide(context: &mut RunContext<'_>) -> Flow<()> {
    let undecided = undecided(context)?;
    if undecided.is_empty() {
        return Ok(());
    }
    let mut assessed = Vec::with_capacity(undecided.len());
    for call in undecided {
        let assessment = assess(context, &call).await?;
        assessed.push((call, assessment));
    }
    if assessed.iter().any(|(_, assessment)| matches!(assessment, Assessment::NeedsApproval { .. })) {
        return Err(Outcome::Suspended(Box::new(ask_people(context, assessed))));
    }
    intent(assessed).append(context).await?;
    context.fault(Point::IntentRecorded).await // 8
}

/// A call to decide about, under the identifier that it has or will have.
pub(super) struct Call {
    pending: PendingCall,
    pub(super) proposal: Proposal,
    has_row: bool,
}

impl Call {
    /// The pending calls in such a stage, in order.
    pub(super) fn all(context: &RunContext<'_>, is_meant: fn(&CallStage) -> bool) -> Vec<Self> {
        let meant = context.state.pending_calls.iter().filter(|pending| is_meant(&pending.stage));
        let call = |pending: &PendingCall| {
            let new = || Proposal { invocation_id: context.clock.new_id(), arguments: arguments_of(&pending.call) };
            let proposal = pending.proposal.clone().unwrap_or_else(new);
            let has_row = context.invocations.contains_key(&proposal.invocation_id);
            Self { pending: pending.clone(), proposal, has_row }
        };
        meant.map(call).collect()
    }

    fn is_new(&self) -> bool {
        self.pending.stage == CallStage::Requested
    }
}

fn undecided(context: &RunContext<'_>) -> Flow<Vec<Call>> {
    let is_undecided = |stage: &CallStage| matches!(stage, CallStage::Requested | CallStage::Proposed | CallStage::Authorized);
    let undecided = Call::all(context, is_undecided);
    let new = i32::try_from(undecided.iter().filter(|call| call.is_new()).count()).unwrap_or(i32::MAX);
    if context.state.usage.tool_calls.saturating_add(new) > context.limits.max_tool_calls {
        return Err(Outcome::failed_for(FailureClass::MaxToolCalls));
    }
    Ok(undecided)
}

/// Steps 1 to 7.
pub(super) async fn assess(context: &RunContext<'_>, call: &Call) -> Flow<Assessment> {
    if context.state.last_stop.is_some_and(Stop::is_cut_off) {
        return Ok(Assessment::Failed { reason: ReasonCode::TruncatedTurn });
    }
    let proposed = Proposed {
        call: &call.pending.call,
        step: call.pending.step,
        invocation_id: call.proposal.invocation_id,
        arguments: &call.proposal.arguments,
        decision: call.pending.approval.and_then(|approval| approval.decision),
        before: context.invocations.get(&call.proposal.invocation_id),
    };
    context.pipeline.assess(&context.on_behalf, proposed).await.map_err(Outcome::from)
}

/// What is written of a turn of which every call is decided.
fn intent(assessed: Vec<(Call, Assessment)>) -> Writing {
    let mut writing = Writing::of(&assessed);
    for (call, assessment) in assessed {
        let call_id = call.pending.call.call_id.clone();
        match assessment {
            // It is on record as authorized already.
            Assessment::Authorized { .. } if call.pending.stage == CallStage::Authorized => {}
            Assessment::Authorized { invocation, reason_code, policy_version } => {
                let (invocation_id, reason_code) = (invocation.id, reason_code.to_owned());
                let decided = ToolCallDecided { call_id, invocation_id, policy_version, reason_code };
                writing.events.push(Event::ToolCallAuthorized(decided));
                writing.row(&call, invocation, InvocationStatus::Authorized);
            }
            refused => writing.refuse(&call, refused),
        }
    }
    writing
}

/// What is written of a turn of which some calls need a person. Those that may be made wait, too, and are decided again.
fn ask_people(context: &RunContext<'_>, assessed: Vec<(Call, Assessment)>) -> Suspending {
    let mut writing = Writing::of(&assessed);
    let mut approvals = Vec::new();
    for (call, assessment) in assessed {
        match assessment {
            // On record as authorized already; it will be decided again all the same.
            Assessment::Authorized { .. } if call.pending.stage == CallStage::Authorized => {}
            Assessment::Authorized { invocation, .. } => {
                writing.row(&call, invocation, InvocationStatus::Proposed);
            }
            Assessment::NeedsApproval { invocation, decision, risk, action_summary } => {
                let (id, ttl) = (context.clock.new_id(), risk.approval_ttl());
                writing.events.push(Event::ApprovalRequested(ApprovalRequested {
                    approval_id: id,
                    call_id: call.pending.call.call_id.clone(),
                    expires_at: context.clock.now() + ttl,
                    risk: risk.to_string(),
                    tool_name: invocation.tool_name.clone(),
                }));
                approvals.push(NewApproval {
                    id,
                    invocation_id: invocation.id,
                    risk: risk.to_string(),
                    ttl,
                    action_summary,
                    policy_reason: decision.explanation,
                    policy_version: decision.policy_version,
                    distinct_approver: decision.distinct_approver,
                });
                writing.row(&call, invocation, InvocationStatus::Waiting);
            }
            refused => writing.refuse(&call, refused),
        }
    }
    let approval_ids: Vec<Uuid> = approvals.iter().map(|approval| approval.id).collect();
    writing.events.push(Event::RunWaitingForApproval(RunWaitingForApproval { approval_ids }));
    Suspending { events: writing.events, calls: writing.calls, asks: Asks::Approvals(approvals) }
}

/// Events and rows of a turn's decisions.
#[derive(Default)]
pub(super) struct Writing {
    events: Vec<Event>,
    calls: CallRows,
}

impl Writing {
    /// Proposals come first: the log shows what was asked for before what was decided.
    fn of(assessed: &[(Call, Assessment)]) -> Self {
        let new = assessed.iter().map(|(call, _)| call).filter(|call| call.is_new());
        let proposed = new.map(|Call { pending, proposal, .. }| {
            Event::ToolCallProposed(ToolCallProposed {
                arguments: proposal.arguments.clone(),
                call_id: pending.call.call_id.clone(),
                invocation_id: proposal.invocation_id,
                name: pending.call.name.clone(),
                step: pending.step,
            })
        });
        Self { events: proposed.collect(), calls: CallRows::default() }
    }

    /// Nothing, where there is nothing to write.
    pub(super) async fn append(self, context: &mut RunContext<'_>) -> Flow<()> {
        if self.events.is_empty() { Ok(()) } else { context.append_calls(self.events, self.calls).await }
    }

    /// A call whose effect may have happened, and will not be repeated.
    pub(super) fn uncertain(&mut self, call: &Call) {
        let (call_id, invocation_id) = (call.pending.call.call_id.clone(), call.proposal.invocation_id);
        tracing::warn!(%invocation_id, "whether a call had its effect is unknown");
        self.events.push(Event::ToolCallUncertain(ToolCallMarked { call_id, invocation_id }));
        self.calls.moved.push(Moved::to(invocation_id, InvocationStatus::Uncertain));
    }

    fn row(&mut self, call: &Call, invocation: Invocation, status: InvocationStatus) {
        if call.has_row {
            self.calls.moved.push(Moved::to(invocation.id, status));
        } else {
            self.calls.new.push(Invocation { status, ..invocation });
        }
    }

    /// A call that is not made. It has a row where it came as far as the policy.
    pub(super) fn refuse(&mut self, call: &Call, assessment: Assessment) {
        let (call_id, invocation_id) = (call.pending.call.call_id.clone(), call.proposal.invocation_id);
        match assessment {
            Assessment::Denied { invocation, reason, policy_version, void } => {
                if let (Some(void), Some(approval)) = (void, call.pending.approval) {
                    let (approval_id, reason) = (approval.id, void.to_string());
                    self.events.push(Event::ApprovalInvalidated(ApprovalInvalidated { approval_id, reason }));
                }
                let reason_code = reason.to_string();
                let decided = ToolCallDecided { call_id, invocation_id, policy_version, reason_code };
                self.events.push(Event::ToolCallDenied(decided));
                match invocation {
                    _ if call.has_row => self.calls.moved.push(Moved::to(invocation_id, InvocationStatus::Denied)),
                    Some(invocation) => self.row(call, invocation, InvocationStatus::Denied),
                    None => {}
                }
            }
            Assessment::Failed { reason } => {
                let (message, reason_code) = (reason.message().to_owned(), reason.to_string());
                self.events.push(Event::ToolCallFailed(ToolCallFailed { call_id, invocation_id, message, reason_code }));
                if call.has_row {
                    self.calls.moved.push(Moved::to(invocation_id, InvocationStatus::Failed));
                }
            }
            Assessment::Authorized { .. } | Assessment::NeedsApproval { .. } => {}
        }
    }
}
