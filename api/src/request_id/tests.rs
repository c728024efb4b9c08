use super::*;

#[test]
fn a_client_may_choose_a_plain_name() {
    let of = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, value.parse().unwrap());
        }
        chosen(&headers).map(str::to_owned)
    };
    let longest = "x".repeat(CHARS_MAX);
    for name in ["a", "A-1._b", longest.as_str()] {
        assert_eq!(of(&[name]).as_deref(), Some(name));
    }
    let too_long = "x".repeat(CHARS_MAX + 1);
    for name in ["", "a b", "a/b", "ä", "a\tb", too_long.as_str()] {
        assert_eq!(of(&[name]), None, "{name}");
    }
    assert_eq!(of(&[]), None);
    assert_eq!(of(&["a", "b"]), None);
}
