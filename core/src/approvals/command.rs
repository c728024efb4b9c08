//! What a person decides about an approval.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::approvals::view::ApprovalStatus;
use crate::closed_set::closed_set;
use crate::error::Error;
use crate::events::Decision;

/// Characters of a reason; the schema's CHECK says the same.
const REASON_CHARS_MAX: usize = 1_000;

closed_set! {
    /// The decisions that are a person's. The others are made by time and by the end of a run.
    Verdict {
        ApproveOnce = "approve_once",
        Deny = "deny",
    }
}

impl Verdict {
    pub(super) const fn status(self) -> ApprovalStatus {
        match self {
            Self::ApproveOnce => ApprovalStatus::Approved,
            Self::Deny => ApprovalStatus::Denied,
        }
    }
}

impl From<Verdict> for Decision {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::ApproveOnce => Self::ApproveOnce,
            Verdict::Deny => Self::Deny,
        }
    }
}

/// A decision. Who decides is the caller, whatever a body says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveApproval {
    pub decision: Verdict,
    /// At most 1,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1_000, pattern = r"^[^\x00]*$")]
    pub reason: Option<String>,
}

impl ResolveApproval {
    pub(super) fn validate(&self) -> Result<(), Error> {
        match &self.reason {
            Some(reason) if reason.chars().count() > REASON_CHARS_MAX || reason.contains('\0') => {
                Err(Error::malformed("/reason", format!("at most {REASON_CHARS_MAX} characters, without NUL")))
            }
            _ => Ok(()),
        }
    }
}
