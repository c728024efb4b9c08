//! The decision: a pure function of the layers and the action.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::canonical::{self, NotCanonical};
use crate::closed_set::closed_set;
use crate::error::Code;
use crate::policy::agent::AgentPolicy;
use crate::policy::hardline;
use crate::policy::profile::Profile;
use crate::tools::{Risk, SideEffect};

closed_set! {
    /// What becomes of a call. In this order `max` is the most restrictive, which is how layers are combined.
    Effect {
        Allow = "allow",
        RequireApproval = "require_approval",
        Deny = "deny",
    }
}

/// A call that is about to be made: all that a decision depends on, beside the policy.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    pub tool_name: &'a str,
    pub side_effect: SideEffect,
    pub risk: Risk,
    /// The canonical arguments, which are those that run.
    pub arguments: &'a Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub effect: Effect,
    /// For the event: `allowed`, `approval_required` or `tool_policy_denied`.
    pub reason_code: &'static str,
    /// One sentence for people. Never repeats the arguments, and never says which rule to work around.
    pub explanation: String,
    /// [`Policy::version`] of the policy that decided.
    pub policy_version: String,
    /// Whether who approves must be another than who asked.
    pub distinct_approver: bool,
}

/// What one layer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) effect: Effect,
    pub(super) explanation: String,
}

/// The layers that decide for one agent: the hardline rules, its profile and its own.
#[derive(Debug, Clone)]
pub struct Policy {
    profile: Arc<Profile>,
    agent: AgentPolicy,
    version: String,
}

impl Policy {
    pub(super) fn new(profile: Arc<Profile>, agent: AgentPolicy) -> Result<Self, NotCanonical> {
        let everything = json!({"hardline": hardline::identity(), "profile": profile.identity(), "agent": agent});
        let version = canonical::sha256_hex(&canonical::text(&everything)?);
        Ok(Self { profile, agent, version })
    }

    /// SHA-256 over all that decides, lower-case hexadecimal: another version may decide otherwise, the same never does.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn decide(&self, action: &Action<'_>) -> Decision {
        let mut strictest = self.profile.verdict(action);
        for layer in [self.agent.verdict(action), hardline::verdict(action)].into_iter().flatten() {
            // Among equals the later one explains: it is the one that a change of the earlier would still meet.
            if layer.effect >= strictest.effect {
                strictest = layer;
            }
        }
        Decision {
            effect: strictest.effect,
            reason_code: strictest.effect.reason_code(),
            explanation: strictest.explanation,
            policy_version: self.version.clone(),
            distinct_approver: self.profile.require_distinct_approver,
        }
    }
}

impl Effect {
    const fn reason_code(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::RequireApproval => Code::ApprovalRequired.as_str(),
            Self::Deny => Code::ToolPolicyDenied.as_str(),
        }
    }

    /// In a sentence: "The profile … this call."
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Allow => "allows",
            Self::RequireApproval => "asks a person to approve",
            Self::Deny => "denies",
        }
    }
}
