//! What a tool says of itself.

use std::time::Duration;

use serde_json::Value;

use crate::closed_set::closed_set;
use crate::scope::Scope;

/// Everything about a tool that policy, pipeline and recovery go by.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Dotted lower case: `math.calculate`. `mcp.` belongs to the tools of MCP servers.
    pub name: &'static str,
    /// A change of what the tool does with the same arguments is a new version: what was approved for the old one is void.
    pub version: &'static str,
    /// For the model.
    pub description: &'static str,
    /// JSON Schema 2020-12 of the arguments: an object that refuses what it does not name, unless it says otherwise.
    pub input_schema: Value,
    /// JSON Schema 2020-12 of the result.
    pub output_schema: Option<Value>,
    pub side_effect: SideEffect,
    pub risk: Risk,
    pub idempotency: Idempotency,
    /// All of them must be among the scopes that the run was submitted with.
    pub required_scopes: &'static [Scope],
    pub timeout: Duration,
    /// Bytes of a result as JSON that the model is shown whole.
    pub max_output_bytes: usize,
    /// Whether calls of a turn may run beside each other, where all of them are read-only.
    pub parallel: Parallel,
    pub kind: ToolKind,
    pub output_trust: OutputTrust,
}

closed_set! {
    /// What a call may do to the world, by the worst of it. Policy decides by this.
    SideEffect {
        None = "none",
        WorkspaceRead = "workspace_read",
        WorkspaceWrite = "workspace_write",
        NetworkRead = "network_read",
        CodeExecution = "code_execution",
        PackageInstall = "package_install",
        SandboxNetwork = "sandbox_network",
        ExternalMessage = "external_message",
        ExternalWrite = "external_write",
        ExternalDelete = "external_delete",
        Financial = "financial",
        Publication = "publication",
        CredentialAccess = "credential_access",
        HostAccess = "host_access",
        Privileged = "privileged",
    }
}

closed_set! {
    /// Orders the attention of people, and sets how long they have; it never decides.
    Risk {
        Low = "low",
        Medium = "medium",
        High = "high",
        Critical = "critical",
    }
}

closed_set! {
    /// Whether a call that may have happened may be made again.
    Idempotency {
        /// Changes nothing: again, at any time.
        ReadOnly = "read_only",
        /// The same call twice is the same as once.
        Idempotent = "idempotent",
        /// As long as the same key goes with it.
        ConditionallyIdempotent = "conditionally_idempotent",
        /// Never, once it may have been sent.
        NonIdempotent = "non_idempotent",
    }
}

closed_set! {
    /// Whether a tool does something for the run, or something to it.
    ToolKind {
        Capability = "capability",
        Control = "control",
    }
}

closed_set! {
    /// Where a result's text comes from. What is not our own is never believed.
    OutputTrust {
        ExternalUntrusted = "external_untrusted",
        Own = "own",
    }
}

/// Whether a tool may run beside itself and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallel {
    Allowed,
    Never,
}

impl Risk {
    /// How long an approval waits for somebody, unless the run's deadline comes first. Less time for what is worse: who
    /// approves should still know why it was asked.
    pub const fn approval_ttl(self) -> Duration {
        const HOUR: u64 = 60 * 60;
        match self {
            Self::Low | Self::Medium => Duration::from_secs(24 * HOUR),
            Self::High => Duration::from_secs(4 * HOUR),
            Self::Critical => Duration::from_secs(HOUR),
        }
    }
}

impl Idempotency {
    /// Whether a tool of this class says so before it does what cannot be undone.
    pub const fn marks_effects(self) -> bool {
        matches!(self, Self::ConditionallyIdempotent | Self::NonIdempotent)
    }
}
