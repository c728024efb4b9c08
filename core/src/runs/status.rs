//! The state machine of a run, pure. The schema's CHECKs say the same a second time.

use crate::closed_set::closed_set;

closed_set! {
    RunStatus {
        Queued = "QUEUED",
        Running = "RUNNING",
        WaitingForApproval = "WAITING_FOR_APPROVAL",
        WaitingForUser = "WAITING_FOR_USER",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
    }
}

impl RunStatus {
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether a run in this state may go to that one.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Running | Self::Cancelled | Self::Failed),
            Self::Running => !matches!(next, Self::Running),
            Self::WaitingForApproval | Self::WaitingForUser => matches!(next, Self::Queued | Self::Cancelled | Self::Failed),
            Self::Completed | Self::Failed | Self::Cancelled => false,
        }
    }
}

closed_set! {
    /// Which slots a run takes; also the order in which free slots are given away.
    Priority {
        Interactive = "INTERACTIVE",
        Async = "ASYNC",
        /// The system's own; clients may not ask for it.
        Maintenance = "MAINTENANCE",
    }
}

closed_set! {
    /// Why a running run went back to the queue. An error never sends one there.
    RequeueCause {
        LeaseExpired = "lease_expired",
        HandedBack = "handed_back",
    }
}

closed_set! {
    /// What a run had waited for when it went on.
    ResumeCause {
        Approval = "approval",
        Input = "input",
        LeaseExpired = "lease_expired",
        HandedBack = "handed_back",
    }
}

impl From<RequeueCause> for ResumeCause {
    fn from(cause: RequeueCause) -> Self {
        match cause {
            RequeueCause::LeaseExpired => Self::LeaseExpired,
            RequeueCause::HandedBack => Self::HandedBack,
        }
    }
}

#[cfg(test)]
mod tests;
