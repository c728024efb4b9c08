//! The one way to call a tool, in fourteen steps:
//!
//! 1 resolve → 2 enabled for the agent → 3 scopes → 4 arguments fit → 5 canonical form and key → 6 policy → 7 approval →
//! 8 intent on record → 9 start on record → 10 execute → 11 result fits → 12 excerpt or artifact → 13 result on record →
//! 14 shown to the model.
//!
//! Here are the steps that decide ([`Pipeline::assess`], 1 to 7) and those that act ([`Pipeline::execute`], 10 to 12). The
//! commits between them belong to whoever executes the run (`step/tools.rs` of the worker), which does 1 to 7 for every call of
//! a turn before 8 of any. Nothing before 8 has touched the world; nothing after 10 can undo it, so 11 never tries again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::agents::AgentDefinition;
use crate::approvals::ApprovalStatus;
use crate::artifacts::{ArtifactStore, ArtifactWriter, NewArtifact};
use crate::canonical;
use crate::clock::Clock;
use crate::error::Error;
use crate::events::{Decision as PersonsDecision, ToolCall};
use crate::fault::{Faults, Point};
use crate::policy::{Action, Decision, Effect, Policy, Profiles};
use crate::principal::Principal;
use crate::tools::catalogue::{Catalogue, Entry};
use crate::tools::excerpt::excerpt;
use crate::tools::failure::ReasonCode;
use crate::tools::invocation::{ApprovedFor, CallIdentity, Invocation, InvocationStatus};
use crate::tools::revalidate::{self, Void};
use crate::tools::spec::{Risk, ToolKind, ToolSpec};
use crate::tools::tool::{Question, ToolAnswer, ToolContext};

/// Bytes of a call's arguments in canonical form, which may be longer than what the model wrote.
const ARGUMENTS_BYTES_MAX: usize = 128 * 1024;

/// A result so many times larger than what the model is shown is not worth keeping: the call is cut off.
const CUT_OFF_FACTOR: usize = 4;

/// Everything that calls go through, once for a process.
#[derive(Debug)]
pub struct Pipeline {
    pub tools: Catalogue,
    pub profiles: Profiles,
    pub artifacts: ArtifactStore,
    pub clock: Clock,
    pub faults: Faults,
}

/// For whom calls are made, and under which rules.
#[derive(Debug, Clone)]
pub struct OnBehalf {
    pub run_id: Uuid,
    pub session_id: Uuid,
    /// As the run has stored it: its scopes are those of the submission.
    pub principal: Principal,
    pub agent: Arc<AgentDefinition>,
    pub agent_version: String,
    /// None: the agent names a profile that this process does not have, and may do nothing.
    pub policy: Option<Arc<Policy>>,
}

/// One call, as far as its run has come with it.
#[derive(Debug, Clone, Copy)]
pub struct Proposed<'a> {
    pub call: &'a ToolCall,
    pub step: u32,
    pub invocation_id: Uuid,
    /// [`arguments_of`] the call.
    pub arguments: &'a Value,
    /// What a person said of it, as the log has it.
    pub decision: Option<PersonsDecision>,
    /// Its row, where it has been through this before.
    pub before: Option<&'a Invocation>,
}

/// What steps 1 to 7 found.
#[derive(Debug, Clone, PartialEq)]
pub enum Assessment {
    Authorized {
        invocation: Invocation,
        reason_code: &'static str,
        policy_version: String,
    },
    /// A person has to be asked.
    NeedsApproval {
        invocation: Invocation,
        decision: Decision,
        risk: Risk,
        action_summary: String,
    },
    /// `void` says why an approval that had been given does not count any more.
    Denied {
        invocation: Option<Invocation>,
        reason: ReasonCode,
        policy_version: String,
        void: Option<Void>,
    },
    Failed {
        reason: ReasonCode,
    },
}

/// What steps 10 to 12 gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Executed {
    Completed(CallResult),
    /// The run is to wait for its user.
    Asked(Question),
    Failed(ReasonCode),
    /// It was done, and its result cannot be used.
    Unusable(ReasonCode),
}

/// A result as it is recorded and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    pub value: Value,
    /// The value is an excerpt; the artifact has the whole.
    pub truncated: bool,
    pub artifact: Option<NewArtifact>,
}

impl CallResult {
    /// Of a call that was done and whose result is lost: the effect is not to be repeated for it.
    pub fn unusable(reason: ReasonCode) -> Self {
        Self { value: json!({"done": true, "result_lost": reason}), truncated: true, artifact: None }
    }
}

/// The arguments of a call in canonical form; null where the model's text is not a JSON object, or too long.
pub fn arguments_of(call: &ToolCall) -> Value {
    let canonical = canonical::parse(call.arguments_raw.as_bytes()).and_then(|value| canonical::text(&value));
    match canonical.ok().filter(|text| text.len() <= ARGUMENTS_BYTES_MAX).and_then(|text| serde_json::from_str(&text).ok()) {
        Some(arguments @ Value::Object(_)) => arguments,
        _ => Value::Null,
    }
}

impl Pipeline {
    /// Steps 1 to 7. Touches nothing. A call that has been through this before is decided anew: an approval counts only for
    /// what it was given for.
    ///
    /// # Errors
    /// Where a test wants one.
    pub async fn assess(&self, on_behalf: &OnBehalf, proposed: Proposed<'_>) -> Result<Assessment, Error> {
        let Proposed { call, arguments, decision: said, before, .. } = proposed;
        let approval = before.and_then(|before| before.approval.as_ref());
        let is_denied = |approval: &ApprovedFor| approval.status == ApprovalStatus::Denied || said == Some(PersonsDecision::Deny);
        if approval.is_some_and(is_denied) {
            return Ok(denied(before.cloned(), ReasonCode::ApprovalDenied, on_behalf.policy.as_deref(), None));
        }
        let failed = |reason, void| match approval {
            // What a person had approved does not fail for a change of ours: the approval is void.
            Some(_) => denied(before.cloned(), ReasonCode::ApprovalInvalidated, on_behalf.policy.as_deref(), Some(void)),
            None => Assessment::Failed { reason },
        };

        let Some(entry) = self.tools.entry(&call.name) else { return Ok(failed(ReasonCode::ToolNotFound, Void::ToolRemoved)) };
        self.faults.hit(Point::ToolResolved).await?; // 1

        if entry.is_disabled || !on_behalf.agent.tools.contains(&call.name) {
            return Ok(failed(ReasonCode::ToolNotFound, Void::ToolDisabled));
        }
        self.faults.hit(Point::ToolEnabled).await?; // 2

        if !entry.spec().required_scopes.iter().all(|scope| on_behalf.principal.scopes.contains(scope)) {
            return Ok(match approval {
                Some(_) => failed(ReasonCode::AuthorizationError, Void::ScopesChanged),
                None => denied(None, ReasonCode::AuthorizationError, on_behalf.policy.as_deref(), None),
            });
        }
        self.faults.hit(Point::ScopesChecked).await?; // 3

        if arguments.is_null() || !entry.accepts(arguments) {
            return Ok(failed(ReasonCode::InvalidArguments, Void::SchemaChanged));
        }
        self.faults.hit(Point::ArgumentsValidated).await?; // 4

        let invocation = self.identify(on_behalf, proposed, entry)?;
        match (before, approval) {
            (Some(before), Some(approval)) => {
                if let Some(void) = revalidate::void(before, approval, &invocation, on_behalf) {
                    return Ok(denied(
                        Some(invocation),
                        ReasonCode::ApprovalInvalidated,
                        on_behalf.policy.as_deref(),
                        Some(void),
                    ));
                }
            }
            // Nobody was asked; but the tool is given what the row has, and that must be what the model has asked for.
            (Some(before), None) if before.arguments != invocation.arguments => {
                return Ok(Assessment::Failed { reason: ReasonCode::InvalidArguments });
            }
            _ => {}
        }
        self.faults.hit(Point::ArgumentsHashed).await?; // 5

        let Some(policy) = &on_behalf.policy else {
            return Ok(match approval {
                Some(_) => denied(Some(invocation), ReasonCode::ApprovalInvalidated, None, Some(Void::PolicyChanged)),
                None => denied(Some(invocation), ReasonCode::ToolPolicyDenied, None, None),
            });
        };
        let spec = entry.spec();
        let action = Action { tool_name: spec.name, side_effect: spec.side_effect, risk: spec.risk, arguments };
        let decision = policy.decide(&action);
        self.faults.hit(Point::PolicyDecided).await?; // 6

        let assessment = with_approval(spec, invocation, decision, approval, said);
        self.faults.hit(Point::ApprovalChecked).await?; // 7
        Ok(assessment)
    }

    /// The call with its key: what is stored, shown to an approver, and handed to the tool.
    fn identify(&self, on_behalf: &OnBehalf, proposed: Proposed<'_>, entry: &Entry) -> Result<Invocation, Error> {
        let Proposed { call, step, invocation_id, before, .. } = proposed;
        let spec = entry.spec();
        let arguments = canonical::text(proposed.arguments).map_err(Error::internal)?;
        let identity = CallIdentity {
            run_id: on_behalf.run_id,
            step,
            index: call.index,
            call_id: &call.call_id,
            tool_name: spec.name,
            tool_version: spec.version,
            arguments: &arguments,
        };
        Ok(Invocation {
            id: invocation_id,
            step,
            index: call.index,
            call_id: call.call_id.clone(),
            tool_name: spec.name.to_owned(),
            tool_version: spec.version.to_owned(),
            schema_sha256: entry.schema_sha256.clone(),
            side_effect: spec.side_effect,
            idempotency: spec.idempotency,
            idempotency_key: identity.key(),
            arguments,
            status: before.map_or(InvocationStatus::Proposed, |before| before.status),
            effect_sent: before.is_some_and(|before| before.effect_sent),
            begun: before.is_some_and(|before| before.begun),
            approval: before.and_then(|before| before.approval.clone()),
        })
    }

    /// Steps 10 to 12, for a call whose start is on record. `marks` takes the requests to put on record that an effect may be
    /// sent, and answers them when it is. Dropping the future is safe as long as none has been answered.
    ///
    /// # Errors
    /// Where a test wants one.
    pub async fn execute(
        &self,
        on_behalf: &OnBehalf,
        invocation: &Invocation,
        marks: mpsc::Sender<oneshot::Sender<()>>,
    ) -> Result<Executed, Error> {
        let Some(entry) = self.tools.entry(&invocation.tool_name) else {
            return Ok(Executed::Failed(ReasonCode::ToolNotFound));
        };
        let arguments: Value = serde_json::from_str(&invocation.arguments).map_err(Error::internal)?;
        let artifacts = self.artifacts.writer(&on_behalf.principal.tenant_id, on_behalf.session_id, invocation.id);
        let context = ToolContext {
            clock: &self.clock,
            idempotency_key: &invocation.idempotency_key,
            artifacts: &artifacts,
            faults: &self.faults,
            marks,
        };
        let call = AssertUnwindSafe(entry.tool.call(&arguments, context)).catch_unwind();
        let answer = match tokio::time::timeout(entry.spec().timeout, call).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(tool = %invocation.tool_name, "a tool panicked");
                Err(ReasonCode::Unknown)
            }
            Err(_) => Err(ReasonCode::ToolTimeout),
        };
        self.faults.hit(Point::AfterTool).await?; // 10
        match answer {
            Ok(ToolAnswer::Result { value, artifact }) => {
                self.complete(entry, &artifacts, CallResult { value, truncated: false, artifact }).await
            }
            Ok(ToolAnswer::Ask(question)) if entry.spec().kind == ToolKind::Control => Ok(Executed::Asked(question)),
            Ok(ToolAnswer::Ask(_)) => Ok(Executed::Unusable(ReasonCode::ToolResultInvalid)),
            Err(reason) => Ok(Executed::Failed(reason)),
        }
    }

    /// Steps 11 and 12 alone, for a call whose answer came from the user.
    ///
    /// # Errors
    /// Where a test wants one.
    pub async fn take_answer(&self, on_behalf: &OnBehalf, invocation: &Invocation, value: Value) -> Result<Executed, Error> {
        let Some(entry) = self.tools.entry(&invocation.tool_name) else {
            return Ok(Executed::Failed(ReasonCode::ToolNotFound));
        };
        let artifacts = self.artifacts.writer(&on_behalf.principal.tenant_id, on_behalf.session_id, invocation.id);
        self.complete(entry, &artifacts, CallResult { value, truncated: false, artifact: None }).await
    }

    async fn complete(&self, entry: &Entry, artifacts: &ArtifactWriter, result: CallResult) -> Result<Executed, Error> {
        let text = canonical::text(&result.value);
        let size = text.as_ref().map_or(0, String::len);
        let max = entry.spec().max_output_bytes;
        if text.is_err() || !entry.result_fits(&result.value) {
            return Ok(Executed::Unusable(ReasonCode::ToolResultInvalid));
        }
        if size > max * CUT_OFF_FACTOR {
            return Ok(Executed::Unusable(ReasonCode::ToolOutputTooLarge));
        }
        self.faults.hit(Point::ResultValidated).await?; // 11
        let fitted = match text {
            Ok(text) if size > max => excerpt(entry.spec(), &text, artifacts, result.artifact).await,
            _ => Ok(result),
        };
        self.faults.hit(Point::ResultFitted).await?; // 12
        Ok(fitted.map_or_else(Executed::Unusable, Executed::Completed))
    }
}

/// Step 7: what the policy says, with what a person said.
fn with_approval(
    spec: &ToolSpec,
    invocation: Invocation,
    decision: Decision,
    approval: Option<&ApprovedFor>,
    said: Option<PersonsDecision>,
) -> Assessment {
    let Decision { effect, reason_code, policy_version, .. } = decision.clone();
    let denied = |invocation, reason, void, policy_version| Assessment::Denied {
        invocation: Some(invocation),
        reason,
        policy_version,
        void,
    };
    match (effect, approval) {
        (Effect::Allow, _) => Assessment::Authorized { invocation, reason_code, policy_version },
        (Effect::Deny, None) => denied(invocation, ReasonCode::ToolPolicyDenied, None, policy_version),
        (Effect::RequireApproval, None) => {
            Assessment::NeedsApproval { invocation, decision, risk: spec.risk, action_summary: summary(spec) }
        }
        (Effect::RequireApproval, Some(approval)) if is_approved(approval, said) && approval.policy_version == policy_version => {
            Assessment::Authorized { invocation, reason_code: "approved", policy_version }
        }
        (_, Some(approval)) => {
            let void = if is_approved(approval, said) { Void::PolicyChanged } else { Void::NotApproved };
            denied(invocation, ReasonCode::ApprovalInvalidated, Some(void), policy_version)
        }
    }
}

/// Log and row have to agree: neither alone is a person's word.
fn is_approved(approval: &ApprovedFor, said: Option<PersonsDecision>) -> bool {
    approval.status == ApprovalStatus::Approved && said == Some(PersonsDecision::ApproveOnce)
}

/// One line for people; the tool's name and the arguments stand beside it.
fn summary(spec: &ToolSpec) -> String {
    const CHARS_MAX: usize = 200;
    spec.description.chars().take(CHARS_MAX).collect()
}

fn denied(invocation: Option<Invocation>, reason: ReasonCode, policy: Option<&Policy>, void: Option<Void>) -> Assessment {
    let policy_version = policy.map(|policy| policy.version().to_owned()).unwrap_or_default();
    Assessment::Denied { invocation, reason, policy_version, void }
}
