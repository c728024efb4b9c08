//! Which hosts we answer for, and which pages may ask us to change something.
//!
//! Both rules are about browsers. A page elsewhere can point a name of its own at 127.0.0.1 (DNS rebinding): `Host` shows the
//! name. A form on any page can post here: `Origin` shows the page. In dev mode nothing else would stop either.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use baton_core::Error;

use crate::cors::CorsOrigins;
use crate::error::ApiError;

/// What a listener is bound to, which decides the hosts that it answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// Loopback names and addresses, any port.
    Loopback,
    /// These names, any port.
    Routable { allowed_hosts: Arc<[String]> },
}

/// Why a server does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0} can be reached from elsewhere: the hosts to answer for must be named")]
    NoAllowedHosts(SocketAddr),
}

impl Bind {
    /// # Errors
    /// [`Refusal::NoAllowedHosts`] for a routable address without a list of hosts.
    pub fn new(address: SocketAddr, allowed_hosts: &[String]) -> Result<Self, Refusal> {
        if address.ip().to_canonical().is_loopback() {
            Ok(Self::Loopback)
        } else if allowed_hosts.is_empty() {
            Err(Refusal::NoAllowedHosts(address))
        } else {
            Ok(Self::Routable { allowed_hosts: allowed_hosts.into() })
        }
    }

    fn answers_for(&self, host: &str) -> bool {
        match self {
            Self::Loopback => is_loopback(host),
            Self::Routable { allowed_hosts } => allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)),
        }
    }
}

/// Refuses what is not for us (421) and what a foreign page sends (403), on every route and in every mode.
pub(crate) async fn check(
    State(bind): State<Bind>,
    State(named): State<CorsOrigins>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let own = authority(request.uri(), request.headers()).filter(|own| bind.answers_for(own.host())).ok_or(Error::Misdirected)?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // Two of them cannot both be ours, so every one is looked at.
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    if !is_read && !origins.all(|origin| is_own(origin, &own) || named.contains(origin)) {
        return Err(Error::ForeignOrigin.into());
    }
    Ok(next.run(request).await)
}

/// The authority that the request is for: that of its target (`:authority` in HTTP/2), else of its one `Host`.
fn authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let authority = match uri.authority() {
        Some(authority) => authority.clone(),
        None => {
            let mut hosts = headers.get_all(header::HOST).iter();
            let host = hosts.next().filter(|_| hosts.next().is_none())?;
            Authority::try_from(host.as_bytes()).ok()?
        }
    };
    // `localhost@example.com` is for example.com, and no client of ours writes it.
    (!authority.as_str().contains('@')).then_some(authority)
}

fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether an `Origin` has the host and port that the request is for. The scheme does not count, except for the port that it
/// implies: who ends TLS in front of us leaves it behind.
fn is_own(origin: &HeaderValue, own: &Authority) -> bool {
    let Some((scheme, origin)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else { return false };
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false, // `null`, and the pages of extensions
    };
    let Ok(origin) = origin.parse::<Authority>() else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    !origin.as_str().contains('@') && origin.host().eq_ignore_ascii_case(own.host()) && port(&origin) == port(own)
}

#[cfg(test)]
mod tests;
