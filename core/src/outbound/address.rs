//! What an address is, as IANA's registries of special-purpose addresses have it, and who may go there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::closed_set::closed_set;

closed_set! {
    /// What an address leads to.
    AddressKind {
        /// Anybody's, on the Internet.
        Public = "public",
        Loopback = "loopback",
        Private = "private",
        UniqueLocal = "unique_local",
        /// Of a carrier, between it and its customers.
        Shared = "shared",
        LinkLocal = "link_local",
        Multicast = "multicast",
        /// Not assigned, for documents, for measurements, or a way in disguise to what is not public.
        Reserved = "reserved",
        Unspecified = "unspecified",
        /// Where a cloud hands credentials to whoever asks from inside. Wherever these lie, nobody goes there.
        Metadata = "metadata",
    }
}

/// Where a client may go. A property of a client and of the configuration that it comes from: no request, tool or agent sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The Internet, and nothing that is nearer.
    Public,
    /// What an operator runs himself: this machine and private networks, and nothing else.
    Private,
}

impl Reach {
    pub const fn admits(self, kind: AddressKind) -> bool {
        match self {
            Self::Public => matches!(kind, AddressKind::Public),
            Self::Private => matches!(kind, AddressKind::Loopback | AddressKind::Private | AddressKind::UniqueLocal),
        }
    }
}

impl AddressKind {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            // The same socket as the IPv4 address itself.
            IpAddr::V6(address) => address.to_ipv4_mapped().map_or_else(|| of_v6(address), of_v4),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> AddressKind {
    let block = V4.iter().find(|(network, length, _)| {
        let differing = u32::from(address) ^ u32::from(*network);
        differing.leading_zeros() >= *length
    });
    block.map_or(AddressKind::Public, |(_, _, kind)| *kind)
}

fn of_v6(address: Ipv6Addr) -> AddressKind {
    if carried(address).into_iter().flatten().any(|inner| of_v4(inner) != AddressKind::Public) {
        return AddressKind::Reserved;
    }
    let block = V6.iter().find(|(network, length, _)| {
        let differing = u128::from(address) ^ u128::from(*network);
        differing.leading_zeros() >= *length
    });
    block.map_or(AddressKind::Reserved, |(_, _, kind)| *kind)
}

/// The IPv4 addresses to which a packet for this address goes on, where a gateway on its way unwraps it.
fn carried(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let inner = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match address.segments() {
        // NAT64.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => [inner(high, low), None],
        // 6to4.
        [0x2002, high, low, ..] => [inner(high, low), None],
        // Teredo: its server, and its client with all bits turned round.
        [0x2001, 0, server_high, server_low, _, _, high, low] => [inner(server_high, server_low), inner(!high, !low)],
        // ISATAP, below any prefix; the second form says that the inner address is a global one.
        [.., 0 | 0x200, 0x5efe, high, low] => [inner(high, low), None],
        _ => [None, None],
    }
}

type V4Block = (Ipv4Addr, u32, AddressKind);
type V6Block = (Ipv6Addr, u32, AddressKind);

/// The first that holds an address says what it is; what none holds is public.
const V4: &[V4Block] = &[
    (Ipv4Addr::UNSPECIFIED, 32, AddressKind::Unspecified),
    // "This network".
    (Ipv4Addr::new(0, 0, 0, 0), 8, AddressKind::Reserved),
    (Ipv4Addr::new(10, 0, 0, 0), 8, AddressKind::Private),
    // Alibaba's metadata, among the shared ones.
    (Ipv4Addr::new(100, 100, 100, 200), 32, AddressKind::Metadata),
    (Ipv4Addr::new(100, 64, 0, 0), 10, AddressKind::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, AddressKind::Loopback),
    // Azure's host, at an address that is public everywhere else.
    (Ipv4Addr::new(168, 63, 129, 16), 32, AddressKind::Metadata),
    // Metadata of most clouds, and of Amazon's containers and pods.
    (Ipv4Addr::new(169, 254, 169, 254), 32, AddressKind::Metadata),
    (Ipv4Addr::new(169, 254, 170, 0), 24, AddressKind::Metadata),
    (Ipv4Addr::new(169, 254, 0, 0), 16, AddressKind::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, AddressKind::Private),
    // Oracle's metadata.
    (Ipv4Addr::new(192, 0, 0, 192), 32, AddressKind::Metadata),
    // Protocol assignments. The two of them that are reachable help to traverse NAT: nobody's endpoint is there.
    (Ipv4Addr::new(192, 0, 0, 0), 24, AddressKind::Reserved),
    // Documentation.
    (Ipv4Addr::new(192, 0, 2, 0), 24, AddressKind::Reserved),
    // The former relays of 6to4.
    (Ipv4Addr::new(192, 88, 99, 0), 24, AddressKind::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, AddressKind::Private),
    // Benchmarks.
    (Ipv4Addr::new(198, 18, 0, 0), 15, AddressKind::Reserved),
    // Documentation.
    (Ipv4Addr::new(198, 51, 100, 0), 24, AddressKind::Reserved),
    (Ipv4Addr::new(203, 0, 113, 0), 24, AddressKind::Reserved),
    (Ipv4Addr::new(224, 0, 0, 0), 4, AddressKind::Multicast),
    // For the future, and the broadcast address.
    (Ipv4Addr::new(240, 0, 0, 0), 4, AddressKind::Reserved),
];

/// The first that holds an address says what it is; what none holds is reserved, since IANA has given out this much only.
/// IPv4-compatible addresses and the NAT64 of a local network (64:ff9b:1::/48) are among those.
const V6: &[V6Block] = &[
    (Ipv6Addr::UNSPECIFIED, 128, AddressKind::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, AddressKind::Loopback),
    // NAT64 to public addresses: the only way to most of the Internet where there is no IPv4.
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, AddressKind::Public),
    // Teredo, and behind it the other protocol assignments.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, AddressKind::Public),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, AddressKind::Reserved),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, AddressKind::Reserved),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, AddressKind::Reserved),
    // Global unicast.
    (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, AddressKind::Public),
    // Amazon's and Google's metadata, among the unique local ones.
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32, AddressKind::Metadata),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, AddressKind::Metadata),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, AddressKind::UniqueLocal),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, AddressKind::LinkLocal),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, AddressKind::Multicast),
];

#[cfg(test)]
mod tests;
