//! Approvals: what a person is asked before an agent may do it.

use crate::closed_set::closed_set;

closed_set! {
    ApprovalStatus {
        Pending = "PENDING",
        Approved = "APPROVED",
        Denied = "DENIED",
        Expired = "EXPIRED",
        Cancelled = "CANCELLED",
    }
}
