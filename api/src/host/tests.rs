use super::*;

fn bind(address: &str, allowed_hosts: &[&str]) -> Result<Bind, Refusal> {
    let allowed_hosts: Vec<String> = allowed_hosts.iter().map(ToString::to_string).collect();
    Bind::new(address.parse().unwrap(), &allowed_hosts)
}

/// Whether a request with this target and these `Host` headers is answered.
fn answered(bind: &Bind, target: &str, hosts: &[&str]) -> bool {
    let mut headers = HeaderMap::new();
    for host in hosts {
        headers.append(header::HOST, host.parse().unwrap());
    }
    authority(&target.parse().unwrap(), &headers).is_some_and(|own| bind.answers_for(own.host()))
}

#[test]
fn case_g4_a_loopback_bind_answers_for_loopback_only() {
    for host in
        ["localhost", "LocalHost:80", "localhost:7420", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:7420", "[::ffff:127.0.0.1]"]
    {
        assert!(answered(&Bind::Loopback, "/", &[host]), "{host}");
    }
    for host in [
        "",
        "example.com",
        "example.com:7420",
        "localhost.example.com",
        "evil-localhost",
        "127.0.0.1.nip.io",
        "127.0.0.1@example.com",
        "localhost@example.com",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "[fe80::1]",
        "127.1",
        "::1",
        "local host",
        "localhost, example.com",
    ] {
        assert!(!answered(&Bind::Loopback, "/", &[host]), "{host}");
    }
    assert!(!answered(&Bind::Loopback, "/", &[]), "no host at all");
    assert!(!answered(&Bind::Loopback, "/", &["localhost", "localhost"]), "two of them");
}

#[test]
fn the_target_wins_over_the_header() {
    assert!(answered(&Bind::Loopback, "http://localhost:7420/v1/runs", &["example.com"]));
    assert!(!answered(&Bind::Loopback, "http://example.com/v1/runs", &["localhost"]));
}

#[test]
fn case_g4_a_routable_bind_needs_and_answers_for_its_list() {
    let routable = bind("0.0.0.0:7420", &["baton.example.com"]).unwrap();
    assert!(answered(&routable, "/", &["Baton.example.com:8443"]));
    assert!(!answered(&routable, "/", &["localhost"]));
    assert_eq!(bind("0.0.0.0:7420", &[]), Err(Refusal::NoAllowedHosts("0.0.0.0:7420".parse().unwrap())));
    assert_eq!(bind("[::ffff:127.0.0.1]:7420", &[]), Ok(Bind::Loopback));
}

#[test]
fn an_origin_is_own_by_host_and_port() {
    let is_own = |origin: &str, own: &str| is_own(&origin.parse().unwrap(), &own.parse().unwrap());
    for (origin, own) in [
        ("http://localhost:7420", "localhost:7420"),
        ("http://LOCALHOST:7420", "localhost:7420"),
        ("http://[::1]:7420", "[::1]:7420"),
        ("http://localhost", "localhost:80"),
        ("https://baton.example.com", "baton.example.com"),
        ("https://baton.example.com", "baton.example.com:443"),
    ] {
        assert!(is_own(origin, own), "{origin} {own}");
    }
    for (origin, own) in [
        ("null", "localhost:7420"),
        ("", "localhost:7420"),
        ("http://localhost:3000", "localhost:7420"),
        ("http://localhost", "localhost:7420"),
        ("http://127.0.0.1:7420", "localhost:7420"),
        ("http://example.com:7420", "localhost:7420"),
        ("http://localhost:7420@example.com", "localhost:7420"),
        ("http://example.com@localhost:7420", "localhost:7420"),
        ("http://localhost:7420/path", "localhost:7420"),
        ("file://localhost:7420", "localhost:7420"),
        ("https://baton.example.com", "baton.example.com:80"),
    ] {
        assert!(!is_own(origin, own), "{origin} {own}");
    }
}
