//! Addresses at which clouds hand credentials to whoever asks from inside.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::policy::decide::Action;
use crate::policy::hardline::strings;
use crate::tools::SideEffect;

/// Amazon, Google, Azure and most others; Amazon's containers; Alibaba; Oracle.
const ADDRESSES: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];
/// Amazon's in IPv6.
const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
const NAMES: [&str; 4] = ["metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];
/// Google's short name, which by itself is a word like any other.
const NAME_IN_URLS: &str = "metadata";

pub(super) fn is_metadata_address(action: &Action<'_>) -> bool {
    any_host(action, |host, _| match host {
        Host::Domain(_) => false,
        Host::Ipv4(address) => ADDRESSES.contains(&address),
        Host::Ipv6(address) => address == ADDRESS_V6 || embedded(address).is_some_and(|inner| ADDRESSES.contains(&inner)),
    })
}

pub(super) fn is_metadata_name(action: &Action<'_>) -> bool {
    any_host(action, |host, spelling| {
        let Host::Domain(name) = host else { return false };
        let name = name.trim_end_matches('.');
        NAMES.contains(&name) || (spelling == Spelling::Url && name == NAME_IN_URLS)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Url,
    Bare,
}

/// What a tool is to reach is a string by itself; a program names it anywhere. A message that mentions it reaches nothing.
fn any_host(action: &Action<'_>, is_wanted: impl Fn(Host, Spelling) -> bool) -> bool {
    let wanted = |text: &str| hosts(text).any(|(host, spelling)| is_wanted(host, spelling));
    let runs = [SideEffect::CodeExecution, SideEffect::PackageInstall, SideEffect::SandboxNetwork];
    let anywhere = runs.contains(&action.side_effect);
    strings::texts(action.arguments).any(|text| wanted(text) || (anywhere && strings::words(text).any(wanted)))
}

/// The hosts that a text can be read as: a URL's, one with the scheme left out, or an address without brackets. The parser
/// is the one of browsers and HTTP clients, so that an address in decimal, octal or hexadecimal is what they make of it.
fn hosts(text: &str) -> impl Iterator<Item = (Host, Spelling)> {
    let url = Url::parse(text).ok().and_then(|url| host_of(&url));
    let rest = text.trim().trim_start_matches(['/', '\\']);
    let bare = Url::parse(&format!("http://{rest}")).ok().and_then(|url| host_of(&url));
    let v6 = text.trim().parse().ok().map(Host::Ipv6);
    let url = url.map(|host| (host, Spelling::Url));
    url.into_iter().chain(bare.into_iter().chain(v6).map(|host| (host, Spelling::Bare)))
}

/// Read again from its text: of schemes that it does not know, the parser leaves the host as it was written.
fn host_of(url: &Url) -> Option<Host> {
    Host::parse(url.host_str()?).ok()
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, or behind NAT64.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = address.segments() else { return address.to_ipv4() };
    Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
}
