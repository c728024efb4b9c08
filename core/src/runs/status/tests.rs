use super::RunStatus::{self, *};

#[test]
fn transitions_are_those_of_the_specification() {
    let allowed: &[(RunStatus, &[RunStatus])] = &[
        (Queued, &[Running, Cancelled, Failed]),
        (Running, &[WaitingForApproval, WaitingForUser, Completed, Failed, Cancelled, Queued]),
        (WaitingForApproval, &[Queued, Cancelled, Failed]),
        (WaitingForUser, &[Queued, Cancelled, Failed]),
        (Completed, &[]),
        (Failed, &[]),
        (Cancelled, &[]),
    ];
    for (from, to) in allowed {
        for next in RunStatus::ALL {
            assert_eq!(from.may_become(*next), to.contains(next), "{from} -> {next}");
        }
    }
}
