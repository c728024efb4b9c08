//! The shape of an address on the web, checked when it is written down. Where it leads is found out at each connection.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::outbound::address::{AddressKind, Reach};

/// An address from the configuration, under which a service has its paths.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    reach: Reach,
}

/// What is wrong with an address. Never says it: a mistake in one may be a password in the wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("must be a URL: `https://host` or `https://host/path`")]
    NotAUrl,
    #[error("must begin with `https://` or `http://`")]
    Scheme,
    #[error("must hold no user name and no password")]
    UserInfo,
    #[error("must hold neither `?` nor `#`")]
    QueryOrFragment,
    #[error("must have an IPv4 address in plain decimal, as in `192.0.2.1`")]
    Ipv4Spelling,
    #[error("leads to an address that is {0}, where it may not go")]
    Unreachable(AddressKind),
}

impl Endpoint {
    /// # Errors
    /// [`EndpointError`], also where the host is an address that this reach can never have.
    pub fn parse(text: &str, reach: Reach) -> Result<Self, EndpointError> {
        let url = web_url(text)?;
        // An empty query is one too: what is appended to the path would end up in it.
        if url.query().is_some() || url.fragment().is_some() {
            return Err(EndpointError::QueryOrFragment);
        }
        match literal(&url).map(AddressKind::of) {
            Some(kind) if !reach.admits(kind) => Err(EndpointError::Unreachable(kind)),
            _ => Ok(Self { url, reach }),
        }
    }

    /// What a client needs to go there.
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// A path below this address, whether or not that ends with a slash.
    pub fn below(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{}", self.url.path().trim_end_matches('/'), path.trim_start_matches('/')));
        url
    }
}

impl fmt::Debug for Endpoint {
    /// Without the address, which is nobody's business who reads a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// A URL of the web that names its host plainly and holds no credentials.
///
/// # Errors
/// [`EndpointError`].
pub(crate) fn web_url(text: &str) -> Result<Url, EndpointError> {
    let url = Url::parse(text).map_err(|_| EndpointError::NotAUrl)?;
    check(&url)?;
    if let Some(Host::Ipv4(address)) = url.host() {
        // The parser reads octal, hexadecimal and short forms as browsers do. Who writes one wants it to be read otherwise by
        // somebody, so it has to stand there as the parser has understood it.
        let written = text.split_once("://").and_then(|(_, rest)| rest.strip_prefix(&address.to_string()));
        if !written.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/', '?', '#'])) {
            return Err(EndpointError::Ipv4Spelling);
        }
    }
    // The parser mends these, too, which were meant otherwise.
    let is_plain = text.split_once("://").is_some_and(|(_, rest)| !rest.starts_with(['/', '\\']));
    if !is_plain || text.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return Err(EndpointError::NotAUrl);
    }
    Ok(url)
}

/// What holds for every URL that anything is sent to.
pub(super) fn check(url: &Url) -> Result<(), EndpointError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EndpointError::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EndpointError::UserInfo);
    }
    Ok(())
}

/// The host, where it is an address: nothing resolves these, so that no resolver sees them.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
    }
}

#[cfg(test)]
mod tests;
