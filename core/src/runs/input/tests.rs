use super::*;

const QUESTION: Uuid = Uuid::from_u128(7);

fn found(status: RunStatus, question: Option<(bool, Option<&str>)>) -> Found {
    let question =
        question.map(|(is_answerable, answer)| FoundQuestion { id: QUESTION, is_answerable, answer: answer.map(str::to_owned) });
    Found { session_id: Uuid::nil(), status, question }
}

/// What stands in the way of the answer `yes`: nothing that is an error, or its code.
fn check(found: &Found, named: Option<Uuid>, expected: Result<Standing, &str>) {
    let got = judge(found, named, "yes").map_err(|error| error.code().as_str());
    assert_eq!(got, expected, "{} {named:?}", found.status);
}

#[test]
fn a_question_has_one_answer() {
    use RunStatus::{Cancelled, Completed, Queued, Running, WaitingForUser};
    for named in [None, Some(QUESTION)] {
        check(&found(WaitingForUser, Some((true, None))), named, Ok(Standing::Open(QUESTION)));
        for status in [Queued, Running, Completed] {
            check(&found(status, Some((false, Some("yes")))), named, Ok(Standing::Answered));
            check(&found(status, Some((false, Some("no")))), named, Err("conflict"));
        }
        // Past its time, and closed by the end of its run.
        check(&found(WaitingForUser, Some((false, None))), named, Err("invalid_state_transition"));
        check(&found(Cancelled, Some((false, None))), named, Err("invalid_state_transition"));
    }
    check(&found(Running, None), None, Err("invalid_state_transition"));
    check(&found(Running, None), Some(QUESTION), Err("not_found"));
}
