//! The rows of calls: intent before anything is done, the watermark before anything is sent.
//!
//! They are written together with the events of their run, through the journal; read when a run is taken up again, for what
//! its log does not hold: whether an effect may have been sent, and what an approval was given for.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use sqlx::PgPool;
use uuid::Uuid;

use crate::approvals::ApprovalStatus;
use crate::artifacts::NewArtifact;
use crate::canonical;
use crate::closed_set::closed_set;
use crate::error::Error;
use crate::tools::spec::{Idempotency, SideEffect};

closed_set! {
    /// Where a call stands, as its row has it.
    InvocationStatus {
        /// On record; it waits for the approvals of other calls of its turn, and is then decided again.
        Proposed = "PROPOSED",
        /// For a person.
        Waiting = "WAITING",
        /// Intent is on record, nothing has been done.
        Authorized = "AUTHORIZED",
        /// It may have touched the world.
        Running = "RUNNING",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Denied = "DENIED",
        /// The run ended before it was made.
        Cancelled = "CANCELLED",
        /// An effect may have happened, and nobody can know.
        Uncertain = "UNCERTAIN",
    }
}

impl InvocationStatus {
    /// Whether nothing more will become of it.
    pub const fn is_settled(self) -> bool {
        !matches!(self, Self::Proposed | Self::Waiting | Self::Authorized | Self::Running)
    }
}

/// A call that passed everything up to the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub id: Uuid,
    pub step: u32,
    /// Place in the turn, from 0.
    pub index: u32,
    /// The provider's.
    pub call_id: String,
    pub tool_name: String,
    pub tool_version: String,
    pub schema_sha256: String,
    /// Canonical: what is stored, shown to the approver, and handed to the tool.
    pub arguments: String,
    pub side_effect: SideEffect,
    pub idempotency: Idempotency,
    /// The same at every attempt of the call.
    pub idempotency_key: String,
    pub status: InvocationStatus,
    /// The watermark.
    pub effect_sent: bool,
    /// The tool has been called: by this execution, or, where it had been started, for all that is known by an earlier one.
    pub begun: bool,
    pub approval: Option<ApprovedFor>,
}

/// What a person was asked about a call, and under which circumstances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedFor {
    pub approval_id: Uuid,
    pub status: ApprovalStatus,
    pub policy_version: String,
    pub agent_version: String,
    pub scopes: Vec<String>,
}

/// What the key of a call is made of.
#[derive(Debug, Clone, Copy)]
pub struct CallIdentity<'a> {
    pub run_id: Uuid,
    pub step: u32,
    pub index: u32,
    pub call_id: &'a str,
    pub tool_name: &'a str,
    pub tool_version: &'a str,
    pub arguments: &'a str,
}

impl CallIdentity<'_> {
    /// SHA-256, lower-case hexadecimal. Lengths go before the parts, so that no two splits of the same bytes are equal.
    pub fn key(&self) -> String {
        /// Changes with what the key is made of.
        const VERSION_TAG: &str = "baton.call.1";
        let mut hash = Sha256::new();
        let arguments_sha256 = canonical::sha256_hex(self.arguments);
        let parts: [&[u8]; 8] = [
            VERSION_TAG.as_bytes(),
            self.run_id.as_bytes(),
            &self.step.to_be_bytes(),
            &self.index.to_be_bytes(),
            self.call_id.as_bytes(),
            self.tool_name.as_bytes(),
            self.tool_version.as_bytes(),
            arguments_sha256.as_bytes(),
        ];
        for part in parts {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        canonical::hex(&hash.finalize())
    }
}

/// What a write of a run changes in the rows of its calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallRows {
    pub new: Vec<Invocation>,
    pub moved: Vec<Moved>,
    pub artifacts: Vec<NewArtifact>,
}

/// A call that went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    pub id: Uuid,
    pub status: InvocationStatus,
    /// Sets the watermark; nothing takes it back.
    pub effect_sent: bool,
}

impl Invocation {
    /// Whether an effect may be out there: it was marked, or it is of a class that does not mark and has begun.
    pub fn may_have_been_sent(&self) -> bool {
        let is_unmarked = self.idempotency == Idempotency::Idempotent && self.begun;
        self.status == InvocationStatus::Running && (self.effect_sent || is_unmarked)
    }
}

impl Moved {
    pub const fn to(id: Uuid, status: InvocationStatus) -> Self {
        Self { id, status, effect_sent: false }
    }
}

/// The calls of a run that are not settled, by identifier.
///
/// # Errors
/// The database's; `Internal` where a row says what this build does not know, or was changed behind our back.
pub async fn unsettled(pool: &PgPool, run_id: Uuid) -> Result<HashMap<Uuid, Invocation>, Error> {
    let rows = sqlx::query!(
        r#"
        SELECT i.id, i.step, i.call_index, i.call_id, i.tool_name, i.tool_version, i.schema_sha256, i.arguments,
            i.side_effect, i.idempotency, i.idempotency_key, i.status, i.effect_sent_at IS NOT NULL AS "effect_sent!",
            a.id AS "approval_id?", a.status AS "approval_status?", a.policy_version AS "policy_version?",
            a.agent_version AS "agent_version?", a.scopes AS "scopes?"
        FROM tool_invocations i LEFT JOIN approvals a ON a.invocation_id = i.id AND a.run_id = i.run_id
        WHERE i.run_id = $1 AND i.status IN ('PROPOSED', 'WAITING', 'AUTHORIZED', 'RUNNING')
        "#,
        run_id,
    )
    .fetch_all(pool)
    .await?;
    let mut unsettled = HashMap::new();
    for row in rows {
        let approval = match (row.approval_id, row.approval_status, row.policy_version, row.agent_version, row.scopes) {
            (Some(approval_id), Some(status), Some(policy_version), Some(agent_version), Some(scopes)) => Some(ApprovedFor {
                approval_id,
                status: status.parse().map_err(Error::internal)?,
                policy_version,
                agent_version,
                scopes,
            }),
            _ => None,
        };
        let has_begun = row.status == InvocationStatus::Running.as_str();
        let invocation = Invocation {
            id: row.id,
            step: u32::try_from(row.step).map_err(Error::internal)?,
            index: u32::try_from(row.call_index).map_err(Error::internal)?,
            call_id: row.call_id,
            tool_name: row.tool_name,
            tool_version: row.tool_version,
            schema_sha256: row.schema_sha256,
            arguments: row.arguments,
            side_effect: row.side_effect.parse().map_err(Error::internal)?,
            idempotency: row.idempotency.parse().map_err(Error::internal)?,
            idempotency_key: row.idempotency_key,
            status: row.status.parse().map_err(Error::internal)?,
            effect_sent: row.effect_sent,
            begun: has_begun,
            approval,
        };
        unsettled.insert(invocation.id, invocation);
    }
    Ok(unsettled)
}
