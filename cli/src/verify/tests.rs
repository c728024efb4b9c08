use super::*;

fn events(sequences: &[i64]) -> Vec<Event> {
    sequences.iter().map(|sequence| (*sequence, format!("event {sequence}"))).collect()
}

/// What is said of a pass that brought these, where 2, 3, 5 and 6 are stored.
fn check(received: &[Event], expected: &str) {
    let mut report = Report::new(Uuid::nil());
    report.compare(&events(&[2, 3, 5, 6]), received);
    let said = report.verdict().map_or_else(|failure| failure.to_string(), |()| String::new());
    assert_eq!(said.rsplit_once("exactly once: ").map_or("", |(_, wrong)| wrong), expected, "{received:?}");
    assert_eq!(report.exactly_once, expected.is_empty());
}

#[test]
fn what_is_wrong_with_a_stream_is_named() {
    check(&events(&[2, 3, 5, 6]), "");
    check(&events(&[2, 3, 6]), "1 missing (5)");
    check(&events(&[]), "4 missing (2, 3, 5, 6)");
    check(&events(&[2, 3, 3, 5, 6]), "1 repeated (3)");
    check(&events(&[2, 5, 3, 6]), "1 out of order (3)");
    check(&events(&[2, 3, 2, 3, 5, 6]), "2 repeated (2, 3); 1 out of order (2)");
    check(&events(&[2, 3, 4, 5, 6]), "1 not stored (4)");
    let mut different = events(&[2, 3, 5, 6]);
    different[1].1.push('!');
    check(&different, "1 different from what is stored (3)");
}

#[test]
fn a_later_pass_does_not_mend_an_earlier_one() {
    let (mut report, stored) = (Report::new(Uuid::nil()), events(&[1, 2]));
    report.compare(&stored, &events(&[1]));
    report.compare(&stored, &stored);
    assert!(!report.exactly_once && report.verdict().is_err());
}
