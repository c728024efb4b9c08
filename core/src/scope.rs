//! What a principal may do. Only scopes authorize; roles are bundles of them.

use crate::closed_set::closed_set;

closed_set! {
    /// Exact words from a closed list: no wildcard, no prefix, no implication.
    Scope {
        SessionRead = "session.read",
        SessionWrite = "session.write",
        RunRead = "run.read",
        RunWrite = "run.write",
        RunCancel = "run.cancel",
        ApprovalRead = "approval.read",
        ApprovalResolve = "approval.resolve",
        ArtifactRead = "artifact.read",
        ArtifactWrite = "artifact.write",
        AgentRead = "agent.read",
        /// Reads everything of the tenant, whoever owns it.
        OperatorRead = "operator.read",
        DemoWrite = "demo.write",
    }
}
