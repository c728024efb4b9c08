use std::net::SocketAddr;
use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::outbound::testing::{Names, Server, ok, redirect};
use crate::tools::tests::{Marks, World};

/// Reads private addresses instead of public ones: there are no others in a test.
fn fetch(names: Names, hosts: &[&str]) -> HttpFetch {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    HttpFetch::over(Arc::new(names).client(Reach::Private), &hosts).unwrap()
}

async fn call(tool: &HttpFetch, url: &str) -> Result<Value, ReasonCode> {
    let world = World::new();
    let arguments = json!({"url": url});
    match world.call_tool(tool, &arguments, &world.writer(Uuid::nil()), Marks::Refused).await.0? {
        ToolAnswer::Result { value, artifact: None } => Ok(value),
        other => panic!("{other:?}"),
    }
}

fn here() -> Names {
    Names::default().at("a.example", ["127.0.0.1"]).at("b.example", ["127.0.0.1"])
}

#[tokio::test]
async fn a_page_is_read_without_credentials() {
    let server = Server::page("h\u{e9}llo \0");
    let url = server.url("a.example", "/page?q=1#part");
    let expected = json!({
        "status": 200,
        "url": server.url("a.example", "/page?q=1"),
        "content_type": "text/plain",
        "text": "h\u{e9}llo \u{fffd}",
        "truncated": false,
    });
    assert_eq!(call(&fetch(here(), &["a.example"]), &url).await, Ok(expected));
    let request = &server.requests()[0];
    let names: Vec<&str> =
        request.lines().skip(1).filter_map(|line| line.split(':').next()).filter(|name| !name.is_empty()).collect();
    assert!(request.starts_with("GET /page?q=1 HTTP/1.1\r\n"), "{request}");
    assert_eq!(names, ["user-agent", "accept", "host"], "nothing else is said of us");
}

#[tokio::test]
async fn what_is_no_plain_url_is_no_argument() {
    let tool = fetch(here(), &["*"]);
    for url in ["page", "file:///etc/passwd", "http://user:pass@a.example/", "http://0x7f.1/", "http://127.1/", "javascript:1"] {
        assert_eq!(call(&tool, url).await, Err(ReasonCode::InvalidArguments), "{url}");
    }
}

#[tokio::test]
async fn only_hosts_of_the_list_are_read_and_none_without_a_list() {
    let server = Server::page("text");
    let (listed, other) = (server.url("a.example", "/"), server.url("b.example", "/"));
    assert_eq!(call(&HttpFetch::new(&[]).unwrap(), &listed).await, Err(ReasonCode::NotConfigured));
    let tool = fetch(here(), &["a.example"]);
    assert!(call(&tool, &listed).await.is_ok());
    assert_eq!(call(&tool, &other).await, Err(ReasonCode::ToolPolicyDenied));
    // What the list holds, the guard looks at nevertheless.
    let guarded = HttpFetch::new(&["*".into()]).unwrap();
    let literal = server.url("127.0.0.1", "/");
    assert_eq!(call(&guarded, &literal).await, Err(ReasonCode::ToolPolicyDenied));
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_pattern_holds_a_host_or_what_is_below_it() {
    let hosts = |patterns: &[&str]| Hosts::parse(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>());
    let holds =
        |pattern: &str, host: &str| hosts(&[pattern]).unwrap().hold(&Url::parse(&format!("http://{host}:8080/")).unwrap());
    for (pattern, host, expected) in [
        ("a.example", "A.EXAMPLE.", true),
        ("A.Example.", "a.example", true),
        ("a.example", "b.a.example", false),
        ("*.a.example", "b.a.example", true),
        ("*.a.example", "c.b.a.example", true),
        ("*.a.example", "a.example", false),
        ("*.a.example", "cba.example", false),
        ("m\u{fc}nchen.example", "xn--mnchen-3ya.example", true),
        ("8.8.8.8", "8.8.8.8", true),
        ("*", "8.8.8.8", true),
    ] {
        assert_eq!(holds(pattern, host), expected, "{pattern} {host}");
    }
    for wrong in ["", "*.", "*a.example", "a.*.example", "https://a.example", "a.example/path", "*.8.8.8.8", "*.*"] {
        assert!(hosts(&["a.example", wrong]).unwrap_err().contains(&format!("`{wrong}`")), "{wrong}");
    }
}

/// A server that sends everybody who asks for `/<n>` on to `/<n - 1>`, and answers `/0`.
fn chain() -> Server {
    Server::start(|path, _| match path[1..].parse::<u32>() {
        Ok(0) => Some(ok("end")),
        Ok(left) => Some(redirect(&format!("/{}", left - 1))),
        Err(_) => None,
    })
}

#[tokio::test]
async fn case_h10_three_redirects_are_followed_and_a_fourth_is_not() {
    let (server, tool) = (chain(), fetch(here(), &["a.example"]));
    let page = call(&tool, &server.url("a.example", "/3")).await.unwrap();
    assert_eq!((&page["text"], &page["url"]), (&json!("end"), &json!(server.url("a.example", "/0"))));
    assert_eq!(server.requests().len(), 4);
    assert_eq!(call(&tool, &server.url("a.example", "/4")).await, Err(ReasonCode::ToolExecutionError));
    assert_eq!(server.requests().len(), 8, "the first answer and three more");
}

#[tokio::test]
async fn case_h10_each_redirect_is_checked_anew() {
    let inside = Server::page("inside");
    // A client that may go to loopback, so that there is something to be sent on from: what it may not reach are the others.
    let names = here().at("metadata.example", ["169.254.169.254"]).at("public.example", ["93.184.216.34"]);
    let tool = fetch(names, &["a.example", "metadata.example", "public.example", "169.254.169.254", "[fe80::1]"]);
    for (target, expected) in [
        ("http://169.254.169.254/latest/meta-data/".into(), ReasonCode::ToolPolicyDenied),
        ("http://2852039166/".into(), ReasonCode::ToolPolicyDenied),
        ("//[fe80::1]/".into(), ReasonCode::ToolPolicyDenied),
        ("http://metadata.example/".into(), ReasonCode::ToolPolicyDenied),
        ("http://public.example/".into(), ReasonCode::ToolPolicyDenied),
        ("file:///etc/passwd".into(), ReasonCode::ToolPolicyDenied),
        ("http://user:pass@a.example/".into(), ReasonCode::ToolPolicyDenied),
        // Loopback, which the client may reach, under a name that the list does not hold.
        (inside.url("b.example", "/"), ReasonCode::ToolPolicyDenied),
        ("http://[/".into(), ReasonCode::ToolExecutionError),
    ] {
        let to: String = target;
        let answer = to.clone();
        let server = Server::start(move |_, _| Some(redirect(&answer)));
        assert_eq!(call(&tool, &server.url("a.example", "/")).await, Err(expected), "{to}");
        assert_eq!(server.requests().len(), 1, "{to}");
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_redirect_says_nothing_of_where_it_came_from() {
    let server = Server::start(|path, address: SocketAddr| match path {
        "/?secret" => Some(redirect(&format!("http://b.example:{}/end", address.port()))),
        _ => Some(ok("end")),
    });
    let page = call(&fetch(here(), &["*.example"]), &server.url("a.example", "/?secret")).await.unwrap();
    assert_eq!(page["url"], server.url("b.example", "/end"));
    assert!(!server.requests()[1].contains("secret"), "{:?}", server.requests());
}

#[test]
fn a_text_is_cut_between_characters_at_its_bound() {
    let check = |body: &[u8], expected: &str, truncated: bool| {
        let (text, is_truncated) = text(body);
        assert_eq!((text.len(), is_truncated), (expected.len(), truncated));
        assert_eq!(text, expected);
    };
    let full = "a".repeat(BODY_BYTES_MAX);
    check(full.as_bytes(), &full, false);
    check(format!("{full}b").as_bytes(), &full, true);
    // The cut splits a character, and only then is its beginning left out.
    let almost = "a".repeat(BODY_BYTES_MAX - 2);
    check(format!("{almost}\u{20ac}").as_bytes(), &almost, true);
    check(b"a\xe2\x82", "a\u{fffd}", false);
    check(b"\xff\xfe\0", "\u{fffd}\u{fffd}\u{fffd}", false);
    // Six bytes for each in JSON.
    check("\u{1}".repeat(BODY_BYTES_MAX).as_bytes(), &"\u{1}".repeat(TEXT_BYTES_MAX / 6), true);
}

#[tokio::test]
async fn a_body_without_end_is_read_to_the_bound() {
    let server = Server::start(|_, _| {
        let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        Some((endless + &format!("4000\r\n{}\r\n", "a".repeat(0x4000)).repeat(5)).into_bytes())
    });
    let page = call(&fetch(here(), &["a.example"]), &server.url("a.example", "/")).await.unwrap();
    assert_eq!((page["text"].as_str().unwrap().len(), &page["truncated"]), (BODY_BYTES_MAX, &json!(true)));
    assert_eq!(page["content_type"], Value::Null);
}

#[tokio::test]
async fn what_does_not_answer_may_be_tried_again() {
    let server = Server::start(|_, _| None);
    let tool = fetch(here(), &["*"]);
    for url in [server.url("a.example", "/"), "http://a.example:1/".into(), "http://nxdomain.example/".into()] {
        assert_eq!(call(&tool, &url).await, Err(ReasonCode::ToolExecutionError), "{url}");
    }
    assert!(ReasonCode::ToolExecutionError.is_retryable() && !ReasonCode::ToolPolicyDenied.is_retryable());
}
