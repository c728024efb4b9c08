use super::*;

fn of(header: &[&str], query: &str) -> Result<Option<i64>, Problem> {
    let mut headers = HeaderMap::new();
    for value in header {
        headers.append(HEADER, value.parse().unwrap());
    }
    cursor(&headers, &Query::parse(&format!("/?{query}").parse().unwrap()))
}

#[test]
fn case_c6_absent_empty_and_minus_one_are_the_start() {
    for (header, query) in [(&[][..], ""), (&[""], ""), (&["-1"], ""), (&["  "], ""), (&[" -1\t"], "")] {
        assert_eq!(of(header, query), Ok(None), "{header:?}");
    }
    for query in ["last_event_id=", "last_event_id=-1", "last_event_id=%20%20", "last_event_id"] {
        assert_eq!(of(&[], query), Ok(None), "{query}");
    }
}

#[test]
fn case_c6_digits_are_a_cursor_of_any_size() {
    for (text, cursor) in [
        ("0", 0),
        ("7", 7),
        (" 7\t", 7),
        ("007", 7),
        ("9223372036854775807", i64::MAX),
        ("9223372036854775808", i64::MAX),
        ("99999999999999999999", i64::MAX),
    ] {
        assert_eq!(of(&[text], ""), Ok(Some(cursor)), "{text}");
    }
    assert_eq!(of(&[], "last_event_id=42"), Ok(Some(42)));
}

#[test]
fn the_header_wins() {
    assert_eq!(of(&["5"], "last_event_id=3"), Ok(Some(5)));
    assert_eq!(of(&[""], "last_event_id=3"), Ok(None));
    assert_eq!(of(&["5"], "last_event_id=x"), Ok(Some(5)));
}

#[test]
fn case_c6_everything_else_is_malformed() {
    for text in
        ["-2", "--1", "+1", "1.0", "1e3", "abc", "1 2", "0x10", "１", "999999999999999999999", "000000000000000000001", "1,2"]
    {
        let problem = parse(HEADER, text).unwrap_err();
        assert_eq!(problem.path, HEADER, "{text}");
    }
    assert_eq!(of(&["1", "1"], "").unwrap_err().path, HEADER);
    assert_eq!(of(&[], "last_event_id=1&last_event_id=1").unwrap_err().path, PARAMETER);
    assert_eq!(of(&[], "last_event_id=x").unwrap_err().path, PARAMETER);
}
