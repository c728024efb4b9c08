//! Each form of an address that is refused, and what is close to it and is not.

use super::*;

fn check(address: &str, expected: AddressKind) {
    assert_eq!(AddressKind::of(address.parse().unwrap()), expected, "{address}");
}

/// The first and the last address of each block, and their neighbours outside.
#[test]
fn gate_d6_each_block_of_ipv4_ends_where_it_ends() {
    for (kind, first, last, before, after) in [
        (AddressKind::Reserved, "0.0.0.1", "0.255.255.255", None, Some("1.0.0.0")),
        (AddressKind::Private, "10.0.0.0", "10.255.255.255", Some("9.255.255.255"), Some("11.0.0.0")),
        (AddressKind::Shared, "100.64.0.0", "100.127.255.255", Some("100.63.255.255"), Some("100.128.0.0")),
        (AddressKind::Loopback, "127.0.0.0", "127.255.255.255", Some("126.255.255.255"), Some("128.0.0.0")),
        (AddressKind::LinkLocal, "169.254.0.0", "169.254.255.255", Some("169.253.255.255"), Some("169.255.0.0")),
        (AddressKind::Private, "172.16.0.0", "172.31.255.255", Some("172.15.255.255"), Some("172.32.0.0")),
        (AddressKind::Reserved, "192.0.0.0", "192.0.0.255", Some("191.255.255.255"), Some("192.0.1.0")),
        (AddressKind::Reserved, "192.0.2.0", "192.0.2.255", Some("192.0.1.255"), Some("192.0.3.0")),
        (AddressKind::Reserved, "192.88.99.0", "192.88.99.255", Some("192.88.98.255"), Some("192.88.100.0")),
        (AddressKind::Private, "192.168.0.0", "192.168.255.255", Some("192.167.255.255"), Some("192.169.0.0")),
        (AddressKind::Reserved, "198.18.0.0", "198.19.255.255", Some("198.17.255.255"), Some("198.20.0.0")),
        (AddressKind::Reserved, "198.51.100.0", "198.51.100.255", Some("198.51.99.255"), Some("198.51.101.0")),
        (AddressKind::Reserved, "203.0.113.0", "203.0.113.255", Some("203.0.112.255"), Some("203.0.114.0")),
        (AddressKind::Multicast, "224.0.0.0", "239.255.255.255", Some("223.255.255.255"), None),
        (AddressKind::Reserved, "240.0.0.0", "255.255.255.255", None, None),
    ] {
        for inside in [first, last] {
            check(inside, kind);
            check(&format!("::ffff:{inside}"), kind);
        }
        for outside in [before, after].into_iter().flatten() {
            check(outside, AddressKind::Public);
            check(&format!("::ffff:{outside}"), AddressKind::Public);
        }
    }
    check("0.0.0.0", AddressKind::Unspecified);
    check("8.8.8.8", AddressKind::Public);
}

#[test]
fn gate_d6_each_block_of_ipv6_ends_where_it_ends() {
    for (kind, addresses) in [
        (AddressKind::Unspecified, ["::"].as_slice()),
        (AddressKind::Loopback, &["::1"]),
        (AddressKind::UniqueLocal, &["fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
        (AddressKind::LinkLocal, &["fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
        (AddressKind::Multicast, &["ff00::", "ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
        (
            AddressKind::Reserved,
            &["::2", "100::1", "100:0:0:1::1", "1fff::1", "4000::1", "5f00::1", "fbff::1", "fe00::1", "fec0::1"],
        ),
        (
            AddressKind::Reserved,
            &["2001:1::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff::1", "2001:db8::1", "3fff:fff::1"],
        ),
        (AddressKind::Public, &["2000::1", "2001:200::1", "2001:db7::1", "2001:db9::1", "3ffe::1", "3fff:1000::1"]),
        (AddressKind::Public, &["2606:4700::1111", "2620:4f:8000::1"]),
    ] {
        for address in addresses {
            check(address, kind);
        }
    }
}

#[test]
fn gate_d6_case_h2_an_ipv4_address_in_disguise_is_what_it_is() {
    for (hidden, of_private, of_public) in [
        ("NAT64", "64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8"),
        ("NAT64 to metadata", "64:ff9b::a9fe:a9fe", "64:ff9b::a8fe:a9fe"),
        ("6to4", "2002:7f00:1::", "2002:808:808::"),
        ("a Teredo client", "2001:0:808:808:0:0:f5ff:fffe", "2001:0:808:808:0:0:f7f7:f7f7"),
        ("a Teredo server", "2001:0:a00:1:0:0:f7f7:f7f7", "2001:0:808:404:0:0:f7f7:f7f7"),
        ("ISATAP", "2606:4700::5efe:10.0.0.1", "2606:4700::5efe:8.8.8.8"),
        ("ISATAP, global", "2606:4700::200:5efe:10.0.0.1", "2606:4700::200:5efe:8.8.8.8"),
    ] {
        assert_eq!(AddressKind::of(of_private.parse().unwrap()), AddressKind::Reserved, "{hidden}");
        check(of_public, AddressKind::Public);
    }
    // Whatever they hold: nobody routes these, or only a local network does.
    for address in ["::127.0.0.1", "::8.8.8.8", "::5efe:10.0.0.1", "::ffff:0:8.8.8.8", "64:ff9b:1::8.8.8.8", "64:ff9a::8.8.8.8"] {
        check(address, AddressKind::Reserved);
    }
    check("fe80::5efe:8.8.8.8", AddressKind::LinkLocal);
}

#[test]
fn case_h14_a_private_reach_is_this_machine_and_private_networks_alone() {
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.2.0.1", "172.16.0.1", "192.168.1.1", "fd12:3456::1"] {
        assert!(Reach::Private.admits(AddressKind::of(address.parse().unwrap())), "{address}");
    }
    let metadata =
        ["169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"];
    for address in metadata {
        check(address, AddressKind::Metadata);
    }
    let others =
        ["169.254.1.1", "fe80::1", "100.64.0.1", "0.0.0.0", "::", "224.0.0.1", "8.8.8.8", "2606:4700::1111", "::127.0.0.1"];
    let hidden = ["64:ff9b::10.0.0.1", "2002:a00:1::", "fd12::5efe:10.0.0.1", "64:ff9b::8.8.8.8", "::ffff:169.254.169.254"];
    for address in [metadata.as_slice(), &others, &hidden].concat() {
        assert!(!Reach::Private.admits(AddressKind::of(address.parse().unwrap())), "{address}");
    }
}
