//! Over real sockets, none of which leads off this machine: see [`Client::with_lookup`].

use futures::future::BoxFuture;
use reqwest::{Method, Url};

use super::*;
use crate::outbound::testing::{LOOPBACK, Names, Server, ok, redirect};
use crate::outbound::{key_set_client, operator_client};

async fn get(client: &Client, url: &str) -> Result<String, SendError> {
    let response = client.send(Request::new(Method::GET, Url::parse(url).unwrap())).await?;
    Ok(response.text().await.unwrap())
}

#[tokio::test]
async fn case_h8_an_address_in_a_url_needs_no_resolver_to_be_refused() {
    let server = Server::page("inside");
    let (port, names) = (server.address.port(), Arc::new(Names::default()));
    let public = names.client(Reach::Public);
    // Whatever the spelling, what the parser made of it is what would be connected to.
    for host in ["127.0.0.1", "[::1]", "2130706433", "0x7f.1", "0177.1", "127.1", "[::ffff:127.0.0.1]", "１２７.0.0.1"] {
        let refused = Err(SendError::Refused(AddressKind::Loopback));
        assert_eq!(get(&public, &format!("http://{host}:{port}/")).await, refused, "{host}");
    }
    assert_eq!(server.connections(), 0);
    let private = names.client(Reach::Private);
    assert_eq!(get(&private, &format!("http://127.0.0.1:{port}/")).await.unwrap(), "inside");
    for (url, why) in [
        ("http://169.254.169.254/", SendError::Refused(AddressKind::Metadata)),
        ("http://[fe80::1]/", SendError::Refused(AddressKind::LinkLocal)),
        ("http://8.8.8.8/", SendError::Refused(AddressKind::Public)),
        ("file:///etc/passwd", SendError::Url(EndpointError::Scheme)),
        ("http://user:secret@127.0.0.1/", SendError::Url(EndpointError::UserInfo)),
    ] {
        assert_eq!(get(&private, url).await, Err(why));
        assert!(!why.is_retryable());
    }
}

#[tokio::test]
async fn case_h6_a_name_is_what_it_resolves_to() {
    let server = Server::page("inside");
    let names = Names::default()
        .at("localhost.", ["127.0.0.1"])
        .at("db.localhost", ["::1"])
        .at("metadata.google.internal.", ["169.254.169.254"])
        .at("xn--mnchen-3ya.example", ["10.0.0.1"])
        // One bad address among good ones.
        .at("mixed.example", ["93.184.216.34", "2606:4700::1111", "127.0.0.1"])
        .at("mapped.example", ["::ffff:127.0.0.1"]);
    let names = Arc::new(names);
    let client = names.client(Reach::Public);
    for (name, kind) in [
        ("LOCALHOST.", AddressKind::Loopback),
        ("db.localhost", AddressKind::Loopback),
        ("Metadata.Google.Internal.", AddressKind::Metadata),
        ("MÜNCHEN。example", AddressKind::Private),
        ("mixed.example", AddressKind::Loopback),
        ("mapped.example", AddressKind::Loopback),
    ] {
        assert_eq!(get(&client, &server.url(name, "/")).await, Err(SendError::Refused(kind)), "{name}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn gate_d6_case_h7_a_name_that_changes_its_answer_reaches_nothing() {
    const TRIES: usize = 1_000;
    let server = Server::page("inside");
    let public: IpAddr = "93.184.216.34".parse().unwrap();
    for first in 0..2 {
        let names =
            Names::default().with("rebind.example", move |turn| Ok(vec![if turn % 2 == first { public } else { LOOPBACK }]));
        let names = Arc::new(names);
        let client = names.client(Reach::Public);
        for turn in 0..TRIES / 2 {
            let why = get(&client, &server.url("rebind.example", "/")).await.unwrap_err();
            // The public address was connected to, or would have been: no packet leaves the machine here.
            let expected = if turn % 2 == first { SendError::Unconnected } else { SendError::Refused(AddressKind::Loopback) };
            assert_eq!(why, expected, "{turn}");
        }
        assert_eq!(names.asked("rebind.example"), TRIES / 2, "one look-up for each connection");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn case_h7_the_server_is_told_the_name_that_was_asked_for() {
    let names = Arc::new(Names::default().at("model.example", ["127.0.0.1"]));
    let client = names.client(Reach::Private);
    let server = Server::page("answer");
    assert_eq!(get(&client, &server.url("model.example", "/v1")).await.unwrap(), "answer");
    let host = format!("host: model.example:{}\r\n", server.address.port());
    assert!(server.requests()[0].contains(&host), "{:?}", server.requests());

    // The first bytes of TLS, in which the name stands as it is.
    let tls = server.url("model.example", "/").replace("http:", "https:");
    assert_eq!(get(&client, &tls).await, Err(SendError::Unconnected));
    assert!(server.requests()[1].contains("model.example"), "{:?}", server.requests());
}

#[tokio::test]
async fn case_h12_what_does_not_resolve_is_not_tried() {
    let names = Names::default()
        .with("empty.example", |_| Ok(Vec::new()))
        .with("broken.example", |_| Err(std::io::Error::other("SERVFAIL")));
    let names = Arc::new(names);
    for reach in [Reach::Public, Reach::Private] {
        let client = names.client(reach);
        for name in ["nxdomain.example", "broken.example", "empty.example"] {
            let why = get(&client, &format!("http://{name}/")).await.unwrap_err();
            assert_eq!(why, SendError::Unresolved, "{name}");
            assert!(why.is_retryable());
        }
        let silent = Client::with_lookup(reach, Arc::new(Silent));
        assert_eq!(get(&silent, "http://silent.example/").await, Err(SendError::Unresolved));
    }
}

/// A resolver that never answers.
#[derive(Debug)]
struct Silent;

impl Lookup for Silent {
    fn look_up(&self, _: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn case_h10_nobody_sends_a_client_elsewhere() {
    let inside = Server::page("inside");
    let target = inside.url("127.0.0.1", "/");
    let server = Server::start(move |_, _| Some(redirect(&target)));
    let client = Arc::new(Names::default()).client(Reach::Private);
    let request = Request::new(Method::POST, Url::parse(&server.url("127.0.0.1", "/")).unwrap());
    assert_eq!(client.send(request).await.unwrap().status(), 302);
    assert_eq!((server.connections(), inside.connections()), (1, 0));
}

/// In a process of its own, since its variables are everybody's.
#[tokio::test]
async fn case_h11_a_proxy_of_the_environment_sees_nothing() {
    const TARGET: &str = "BATON_TEST_TARGET";
    if let Ok(target) = std::env::var(TARGET) {
        let request = || Request::new(Method::GET, Url::parse(&target).unwrap());
        let response = Client::new(Reach::Private).unwrap().send(request()).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "direct");
        for exception in [operator_client().unwrap(), key_set_client().unwrap()] {
            assert_eq!(exception.execute(request()).await.unwrap().text().await.unwrap(), "direct");
        }
        return;
    }
    let (server, proxy) = (Server::page("direct"), Server::page("proxied"));
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "outbound::client::tests::case_h11_a_proxy_of_the_environment_sees_nothing", "--nocapture"]);
    child.env(TARGET, server.url("127.0.0.1", "/")).env_remove("NO_PROXY").env_remove("no_proxy");
    for variable in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(variable, proxy.url("127.0.0.1", ""));
    }
    let output = child.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((server.connections(), proxy.connections()), (3, 0));
}

#[tokio::test]
async fn case_h15_a_connection_belongs_to_the_reach_that_it_was_made_for() {
    let server = Server::page("inside");
    let names = Arc::new(Names::default().at("internal.example", ["127.0.0.1"]));
    let (private, public) = (names.client(Reach::Private), names.client(Reach::Public));
    let url = server.url("internal.example", "/");
    for _ in 0..2 {
        assert_eq!(get(&private, &url).await.unwrap(), "inside");
    }
    assert_eq!(server.connections(), 1, "it was kept");
    assert_eq!(get(&public, &url).await, Err(SendError::Refused(AddressKind::Loopback)));
    assert_eq!((server.connections(), server.requests().len()), (1, 2));
}

#[tokio::test]
async fn an_error_has_no_words_of_others() {
    let server = Server::start(|path, _| (path == "/good").then(|| ok("good")));
    let names = Arc::new(Names::default().at("secret.example", ["127.0.0.1"]));
    let client = names.client(Reach::Private);
    assert_eq!(get(&client, &server.url("secret.example", "/good")).await.unwrap(), "good");
    assert_eq!(get(&client, &server.url("secret.example", "/secret")).await, Err(SendError::Broken));
    assert_eq!(get(&client, "http://secret.example:1/").await, Err(SendError::Unconnected));
}
