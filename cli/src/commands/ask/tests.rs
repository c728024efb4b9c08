use super::*;

#[test]
fn a_number_stands_for_its_choice() {
    let choices = ["red".to_owned(), "2".to_owned()];
    for (text, expected) in [("1", "red"), ("2", "2"), ("red", "red"), ("0", "0"), ("3", "3"), ("-1", "-1"), ("blue", "blue")] {
        assert_eq!(chosen(text, &choices), expected);
    }
    assert_eq!(chosen("1", &[]), "1");
}

#[test]
fn only_a_clear_word_decides_and_what_is_no_word_of_ours_is_asked_again() {
    for (line, expected) in [
        (Some("y\n"), Some(Reply::Now(Verdict::ApproveOnce))),
        (Some("Approve\n"), Some(Reply::Now(Verdict::ApproveOnce))),
        (Some("YES"), Some(Reply::Now(Verdict::ApproveOnce))),
        (Some("d"), Some(Reply::Now(Verdict::Deny))),
        (Some("deny"), Some(Reply::Now(Verdict::Deny))),
        (Some("\n"), Some(Reply::Later)),
        (Some("n"), Some(Reply::Later)),
        (None, Some(Reply::Later)),
        (Some("ye"), None),
        (Some("approve it and more"), None),
    ] {
        assert_eq!(Reply::of(line), expected, "{line:?}");
    }
}
