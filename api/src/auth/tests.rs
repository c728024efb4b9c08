use axum::http::{HeaderName, HeaderValue};

use super::*;

#[test]
fn a_token_is_in_the_header_or_in_the_one_cookie() {
    let check = |lines: &[(&'static str, &'static str)], expected: Option<&str>| {
        let line =
            |(name, value): &(&'static str, &'static str)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(line) {
            headers.append(name, value);
        }
        assert_eq!(presented(&headers), expected, "{lines:?}");
    };
    check(&[], None);
    check(&[("authorization", "Bearer a.b.c")], Some("a.b.c"));
    check(&[("authorization", "bEARER  a.b.c")], Some("a.b.c"));
    check(&[("authorization", "Basic a.b.c")], None);
    check(&[("authorization", "Bearer")], None);
    check(&[("authorization", "a.b.c")], None);
    check(&[("authorization", "Bearer a"), ("authorization", "Bearer a")], None);
    check(&[("cookie", "baton_session=a.b.c")], Some("a.b.c"));
    check(&[("cookie", "x=1; baton_session=a.b.c;y=2")], Some("a.b.c"));
    check(&[("cookie", "x=1"), ("cookie", "baton_session=a.b.c")], Some("a.b.c"));
    check(&[("cookie", "baton_session=a; baton_session=b")], None);
    check(&[("cookie", "baton_session=a"), ("cookie", "baton_session=a")], None);
    check(&[("cookie", "Baton_Session=a; baton_sessions=b")], None);
    check(&[("authorization", "Bearer a"), ("cookie", "baton_session=b")], Some("a"));
    check(&[("authorization", "Basic a"), ("cookie", "baton_session=b")], None);
}

#[tokio::test]
async fn gate_a12_dev_mode_is_for_loopback_only() {
    let start = |address: &str| {
        let bind = Bind::new(address.parse().unwrap(), &["baton.example.com".to_owned()]).unwrap();
        async move { authenticator(&Auth::default(), &bind, &Clock::system()).await }
    };
    assert!(start("127.0.0.1:7420").await.is_ok());
    assert!(start("[::1]:7420").await.is_ok());
    for routable in ["0.0.0.0:7420", "[::]:7420", "10.0.0.1:7420", "[::ffff:10.0.0.1]:7420"] {
        assert!(matches!(start(routable).await, Err(NoAuthenticator::DevIsRoutable)), "{routable}");
    }
}
