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
        ("y\n", Some(Reply::Now(Verdict::ApproveOnce))),
        ("Approve\n", Some(Reply::Now(Verdict::ApproveOnce))),
        ("YES", Some(Reply::Now(Verdict::ApproveOnce))),
        ("d", Some(Reply::Now(Verdict::Deny))),
        ("deny", Some(Reply::Now(Verdict::Deny))),
        ("\n", Some(Reply::Later)),
        ("n", Some(Reply::Later)),
        ("ye", None),
        ("approve it and more", None),
    ] {
        assert_eq!(Reply::of(line), expected, "{line:?}");
    }
}
