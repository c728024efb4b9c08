use super::*;

#[test]
fn a_number_stands_for_its_choice() {
    let choices = ["red".to_owned(), "2".to_owned()];
    for (text, expected) in [("1", "red"), ("2", "2"), ("red", "red"), ("0", "0"), ("3", "3"), ("-1", "-1"), ("blue", "blue")] {
        assert_eq!(chosen(text, &choices), expected);
    }
    assert_eq!(chosen("1", &[]), "1");
}
