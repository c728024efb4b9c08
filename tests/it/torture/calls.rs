//! What a torture worker does with the calls of a turn: it decides all of them at once, or asks people about some; makes them
//! one after the other; and settles what an execution before it had started.

use std::collections::HashMap;
use std::time::Duration;

use baton_core::events::{
    ApprovalRequested, Decision, Event, RunWaitingForApproval, RunWaitingForUser, ToolCall, ToolCallCompleted, ToolCallDecided,
    ToolCallFailed, ToolCallMarked, ToolCallProposed,
};
use baton_core::execution::{Asks, CallStage, NewApproval, NewQuestion, PendingCall};
use baton_core::tools::{CallIdentity, CallRows, Idempotency, Invocation, InvocationStatus, Moved, SideEffect};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;
use uuid::Uuid;

use super::world::{Stage, World};

/// Calls of a turn at most, and of those that a person is asked about.
pub(super) const CALLS_MAX: u32 = 4;
const APPROVALS_MAX: usize = 3;

/// Long enough for everybody, and so short that it expires under the eyes of those who would answer.
const LONG: Duration = Duration::from_secs(600);
const SHORT_MAX: Duration = Duration::from_millis(150);

/// A run's calls as its worker knows them, and what it writes of them next.
#[derive(Debug)]
pub(super) struct Calls<'a> {
    pub(super) world: &'a World,
    pub(super) rng: &'a mut StdRng,
    pub(super) run_id: Uuid,
    /// Those that are not settled.
    pub(super) invocations: &'a HashMap<Uuid, Invocation>,
    /// Nothing is written under this lease: what has started was started by another.
    pub(super) is_new: bool,
    pub(super) events: Vec<Event>,
    pub(super) rows: CallRows,
    pub(super) asks: Option<Asks>,
}

/// Calls of a turn, as a model asks for them.
pub(super) fn requested(rng: &mut StdRng, step: u32) -> Vec<ToolCall> {
    let count = rng.random_range(1..=CALLS_MAX);
    let call = |index| ToolCall {
        arguments_raw: "{}".into(),
        call_id: format!("{step}-{index}"),
        index,
        name: if rng.random_bool(0.4) { "ask" } else { "act" }.into(),
    };
    (0..count).map(call).collect()
}

impl Calls<'_> {
    /// One thing of what is to be done next.
    pub(super) fn go_on(&mut self, pending: &[PendingCall]) {
        let undecided: Vec<&PendingCall> =
            pending.iter().filter(|call| matches!(call.stage, CallStage::Requested | CallStage::Proposed)).collect();
        match (undecided.is_empty(), pending.first()) {
            (false, _) => self.decide(&undecided),
            (true, Some(call)) => self.act(call),
            (true, None) => {}
        }
    }

    fn decide(&mut self, undecided: &[&PendingCall]) {
        let asking = self.world.stage() == Stage::Torture && self.rng.random_bool(0.6);
        let proposals: Vec<(Uuid, &PendingCall)> = undecided
            .iter()
            .map(|call| (call.proposal.as_ref().map_or_else(|| self.world.clock().new_id(), |known| known.invocation_id), *call))
            .collect();
        for (invocation_id, call) in proposals.iter().filter(|(_, call)| call.stage == CallStage::Requested) {
            self.events.push(Event::ToolCallProposed(ToolCallProposed {
                arguments: json!({}),
                call_id: call.call.call_id.clone(),
                invocation_id: *invocation_id,
                name: call.call.name.clone(),
                step: call.step,
            }));
        }
        let mut approvals = Vec::new();
        // What a person has decided comes first: who waits with others that are asked about must not be asked twice.
        let may_ask = asking && undecided.iter().all(|call| call.stage == CallStage::Requested);
        for (id, call) in &proposals {
            if may_ask && approvals.len() < APPROVALS_MAX && self.rng.random_bool(0.7) {
                approvals.push(self.ask_people(*id, call));
            } else if call.approval.is_some_and(|asked| asked.decision == Some(Decision::Deny)) || self.rng.random_bool(0.1) {
                let decided = self.decided(*id, call);
                self.events.push(Event::ToolCallDenied(decided));
                self.row(*id, call, InvocationStatus::Denied);
            } else {
                self.row(*id, call, InvocationStatus::Authorized);
            }
        }
        self.close_decision(&proposals, approvals);
    }

    /// Nothing is authorized while people are asked: the calls that they are not asked about wait with the others.
    fn close_decision(&mut self, proposals: &[(Uuid, &PendingCall)], approvals: Vec<NewApproval>) {
        let allowed: Vec<Uuid> = {
            let new = self.rows.new.iter().filter(|row| row.status == InvocationStatus::Authorized).map(|row| row.id);
            let moved = self.rows.moved.iter().filter(|row| row.status == InvocationStatus::Authorized).map(|row| row.id);
            new.chain(moved).collect()
        };
        if approvals.is_empty() {
            for (id, call) in proposals.iter().filter(|(id, _)| allowed.contains(id)) {
                let decided = self.decided(*id, call);
                self.events.push(Event::ToolCallAuthorized(decided));
            }
            return;
        }
        for row in self.rows.new.iter_mut().filter(|row| row.status == InvocationStatus::Authorized) {
            row.status = InvocationStatus::Proposed;
        }
        let approval_ids = approvals.iter().map(|approval| approval.id).collect();
        self.events.push(Event::RunWaitingForApproval(RunWaitingForApproval { approval_ids }));
        self.asks = Some(Asks::Approvals(approvals));
    }

    fn ask_people(&mut self, invocation_id: Uuid, call: &PendingCall) -> NewApproval {
        let (id, ttl) = (self.world.clock().new_id(), self.ttl());
        self.events.push(Event::ApprovalRequested(ApprovalRequested {
            approval_id: id,
            call_id: call.call.call_id.clone(),
            expires_at: self.world.clock().now() + ttl,
            risk: "low".into(),
            tool_name: call.call.name.clone(),
        }));
        self.row(invocation_id, call, InvocationStatus::Waiting);
        NewApproval {
            id,
            invocation_id,
            risk: "low".into(),
            ttl,
            action_summary: "torture".into(),
            policy_reason: "torture".into(),
            policy_version: "1".into(),
            distinct_approver: false,
        }
    }

    fn ttl(&mut self) -> Duration {
        if self.rng.random_bool(0.25) { SHORT_MAX.mul_f64(self.rng.random_range(0.05..1.0)) } else { LONG }
    }

    fn decided(&self, invocation_id: Uuid, call: &PendingCall) -> ToolCallDecided {
        let (policy_version, reason_code) = ("1".into(), "torture".into());
        ToolCallDecided { call_id: call.call.call_id.clone(), invocation_id, policy_version, reason_code }
    }

    fn row(&mut self, id: Uuid, call: &PendingCall, status: InvocationStatus) {
        if call.stage != CallStage::Requested {
            self.rows.moved.push(Moved::to(id, status));
            return;
        }
        let identity = CallIdentity {
            run_id: self.run_id,
            step: call.step,
            index: call.call.index,
            call_id: &call.call.call_id,
            tool_name: &call.call.name,
            tool_version: "1",
            arguments: "{}",
        };
        let classes = [Idempotency::Idempotent, Idempotency::NonIdempotent, Idempotency::NonIdempotent];
        self.rows.new.push(Invocation {
            begun: false,
            id,
            step: call.step,
            index: call.call.index,
            call_id: call.call.call_id.clone(),
            tool_name: call.call.name.clone(),
            tool_version: "1".into(),
            schema_sha256: String::new(),
            arguments: "{}".into(),
            side_effect: SideEffect::ExternalWrite,
            idempotency: classes[self.rng.random_range(0..classes.len())],
            idempotency_key: identity.key(),
            status,
            effect_sent: false,
            approval: None,
        });
    }

    fn act(&mut self, pending: &PendingCall) {
        let Some(proposal) = &pending.proposal else { return self.world.wrong(format!("decided and not proposed: {pending:?}")) };
        let (id, call_id) = (proposal.invocation_id, pending.call.call_id.clone());
        let Some(row) = self.invocations.get(&id) else {
            // The lease was lost between the log and the rows; if it was not, the run is stuck, and that shows.
            return self.world.count("rows behind the log");
        };
        let marked = ToolCallMarked { call_id, invocation_id: id };
        match &pending.stage {
            CallStage::Authorized => {
                self.events.push(Event::ToolCallStarted(marked));
                self.rows.moved.push(Moved::to(id, InvocationStatus::Running));
            }
            CallStage::Started if self.is_new && row.effect_sent && row.idempotency == Idempotency::NonIdempotent => {
                self.world.count("calls settled after a loss");
                self.events.push(Event::ToolCallUncertain(marked));
                self.rows.moved.push(Moved::to(id, InvocationStatus::Uncertain));
            }
            CallStage::Started if pending.call.name == "ask" && self.world.stage() == Stage::Torture => self.ask_user(id),
            CallStage::Started if !row.effect_sent && self.rng.random_bool(0.5) => {
                self.rows.moved.push(Moved { id, status: InvocationStatus::Running, effect_sent: true });
            }
            // It takes its time, and may lose its worker meanwhile.
            CallStage::Started if self.rng.random_bool(0.5) => {}
            CallStage::Started | CallStage::AskedUser { answer: Some(_), .. } => self.complete(marked),
            CallStage::Requested | CallStage::Proposed | CallStage::AskedUser { answer: None, .. } => {
                self.world.wrong(format!("run {} is executed, and waits: {pending:?}", self.run_id));
            }
        }
    }

    fn complete(&mut self, marked: ToolCallMarked) {
        let ToolCallMarked { call_id, invocation_id } = marked;
        let status = if self.rng.random_bool(0.8) {
            let (artifact_id, result, truncated) = (None, json!({}), false);
            self.events.push(Event::ToolCallCompleted(ToolCallCompleted {
                artifact_id,
                call_id,
                invocation_id,
                result,
                truncated,
            }));
            InvocationStatus::Completed
        } else {
            let (message, reason_code) = ("torture".into(), "tool_execution_error".into());
            self.events.push(Event::ToolCallFailed(ToolCallFailed { call_id, invocation_id, message, reason_code }));
            InvocationStatus::Failed
        };
        self.rows.moved.push(Moved::to(invocation_id, status));
    }

    fn ask_user(&mut self, invocation_id: Uuid) {
        let (id, ttl) = (self.world.clock().new_id(), self.ttl());
        self.events.push(Event::RunWaitingForUser(RunWaitingForUser {
            choices: None,
            expires_at: self.world.clock().now() + ttl,
            question: "torture?".into(),
            question_id: id,
        }));
        self.rows.moved.push(Moved::to(invocation_id, InvocationStatus::Waiting));
        self.asks = Some(Asks::Question(NewQuestion { id, invocation_id, question: "torture?".into(), choices: None, ttl }));
    }

    /// Before the end of a run: no call is left open.
    pub(super) fn close(&mut self) {
        let mut open: Vec<&Invocation> = self.invocations.values().collect();
        open.sort_by_key(|row| (row.step, row.index));
        for row in open {
            let status = if row.may_have_been_sent() {
                let marked = ToolCallMarked { call_id: row.call_id.clone(), invocation_id: row.id };
                self.events.push(Event::ToolCallUncertain(marked));
                InvocationStatus::Uncertain
            } else {
                InvocationStatus::Cancelled
            };
            self.rows.moved.push(Moved::to(row.id, status));
        }
    }
}

/// The rows that are not settled, after a write.
pub(super) fn after(mut rows: HashMap<Uuid, Invocation>, written: CallRows) -> HashMap<Uuid, Invocation> {
    rows.extend(written.new.into_iter().map(|row| (row.id, row)));
    for moved in written.moved {
        if let Some(row) = rows.get_mut(&moved.id) {
            row.status = moved.status;
            row.effect_sent |= moved.effect_sent;
        }
    }
    rows.retain(|_, row| !row.status.is_settled());
    rows
}
