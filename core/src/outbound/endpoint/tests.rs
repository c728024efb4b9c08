use super::*;

fn shape(text: &str, expected: Option<EndpointError>) {
    assert_eq!(Endpoint::parse(text, Reach::Public).err(), expected, "{text}");
}

#[test]
fn gate_d6_an_endpoint_has_the_shape_of_one() {
    for good in [
        "https://api.example.com",
        "HTTP://API.example.com:8080/v1/",
        "https://8.8.8.8/v1",
        "https://8.8.8.8:443",
        "https://[2606:4700::1111]/",
    ] {
        shape(good, None);
    }
    for no_url in [
        "",
        "api.example.com",
        "https://",
        "http://[::1",
        "http://1.2.3.4.5/",
        "http://08.8.8.8/",
        "http://[fe80::1%25eth0]/",
        "https:example.com/",
        "https:///example.com/",
        " https://example.com/",
        "https://example.com/\n",
        "https://exa\tmple.com/",
    ] {
        shape(no_url, Some(EndpointError::NotAUrl));
    }
    for scheme in ["file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "data:text/plain,a", "localhost:11434"] {
        shape(scheme, Some(EndpointError::Scheme));
    }
    for user in ["https://user@example.com/", "https://:secret@example.com/", "https://example.com@127.0.0.1/"] {
        shape(user, Some(EndpointError::UserInfo));
    }
    for more in ["https://example.com/?key=secret", "https://example.com/?", "https://example.com/#a", "https://example.com/#"] {
        shape(more, Some(EndpointError::QueryOrFragment));
    }
}

#[test]
fn gate_d6_case_h4_an_ipv4_address_has_one_spelling() {
    // Loopback and a public address in each: the spelling is what is wrong.
    let odd = [
        "2130706433",
        "0177.1",
        "0x7f.1",
        "127.1",
        "012.0.0.1",
        "0x7f000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
    ];
    let public = ["134744072", "010.8.8.8", "0x8.8.8.8", "8.8.2056", "8.8.8.8.", "８.8.8.8"];
    for host in odd.iter().chain(&public) {
        for reach in [Reach::Public, Reach::Private] {
            assert_eq!(Endpoint::parse(&format!("http://{host}/"), reach).err(), Some(EndpointError::Ipv4Spelling), "{host}");
        }
    }
    for url in ["http:8.8.8.8/", "http:\\\\8.8.8.8\\", "http://8.8.\t8.8/"] {
        shape(url, Some(EndpointError::Ipv4Spelling));
    }
    // They look like one, and are names.
    for host in ["8.8.8.8.example.com", "0x7f.example", "127-0-0-1.example", "1e100.net"] {
        shape(&format!("http://{host}/"), None);
    }
}

#[test]
fn case_h3_an_address_is_refused_where_it_is_written_down() {
    for (host, public, private) in [
        ("127.0.0.1", Err(AddressKind::Loopback), Ok(())),
        ("[::1]", Err(AddressKind::Loopback), Ok(())),
        ("[fd00::1]", Err(AddressKind::UniqueLocal), Ok(())),
        ("[2606:4700::1111]", Ok(()), Err(AddressKind::Public)),
        ("169.254.169.254", Err(AddressKind::Metadata), Err(AddressKind::Metadata)),
        ("[fe80::1]", Err(AddressKind::LinkLocal), Err(AddressKind::LinkLocal)),
    ] {
        let parse = |reach| Endpoint::parse(&format!("http://{host}:80/"), reach).map(drop);
        assert_eq!(parse(Reach::Public), public.map_err(EndpointError::Unreachable), "{host}");
        assert_eq!(parse(Reach::Private), private.map_err(EndpointError::Unreachable), "{host}");
    }
}

#[test]
fn a_path_goes_below_an_endpoint_and_nothing_shows_where_that_is() {
    for base in ["https://secret.example/v1", "https://secret.example/v1/"] {
        let endpoint = Endpoint::parse(base, Reach::Public).unwrap();
        assert_eq!(endpoint.below("/chat/completions").as_str(), "https://secret.example/v1/chat/completions");
        assert_eq!(endpoint.below("chat").as_str(), "https://secret.example/v1/chat");
        assert!(!format!("{endpoint:?}").contains("secret"));
    }
    for text in
        ["https://secret@example.com", "secret://a", "https://e.example/?secret", "http://0x7f.1/secret", "http://[secret/"]
    {
        let error = Endpoint::parse(text, Reach::Public).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}
