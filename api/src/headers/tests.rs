use super::*;

fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(name, value.parse().unwrap());
    }
    headers
}

#[test]
fn a_header_is_given_once_or_not_at_all() {
    assert_eq!(once(&headers("Idempotency-Key", &[]), "Idempotency-Key"), Ok(None));
    assert_eq!(once(&headers("Idempotency-Key", &["a"]), "Idempotency-Key"), Ok(Some("a")));
    assert_eq!(once(&headers("Idempotency-Key", &["a", "a"]), "Idempotency-Key").unwrap_err().path, "Idempotency-Key");
    assert!(once(&headers("Idempotency-Key", &["ä"]), "Idempotency-Key").is_err());
}

#[test]
fn a_trace_is_passed_on_or_ignored() {
    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(traceparent(&headers("traceparent", &[GOOD])).as_deref(), Some(GOOD));
    for bad in [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
    ] {
        assert_eq!(traceparent(&headers("traceparent", &[bad])), None, "{bad}");
    }
    assert_eq!(traceparent(&headers("traceparent", &[GOOD, GOOD])), None);
}
