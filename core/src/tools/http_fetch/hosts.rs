//! The hosts that an operator lets agents read.

use url::{Host, Url};

#[derive(Debug)]
pub(super) struct Hosts(Vec<Pattern>);

#[derive(Debug, PartialEq, Eq)]
enum Pattern {
    Any,
    Exactly(Host),
    /// Everything below a name, without the name itself.
    Below(String),
}

impl Hosts {
    /// # Errors
    /// Names what is no host.
    pub(super) fn parse(hosts: &[String]) -> Result<Self, String> {
        hosts.iter().map(|host| Pattern::parse(host)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of them is this URL's, whatever its port.
    pub(super) fn hold(&self, url: &Url) -> bool {
        let Some(host) = url.host().map(|host| plain(host.to_owned())) else { return false };
        self.0.iter().any(|pattern| match (pattern, &host) {
            (Pattern::Any, _) => true,
            (Pattern::Exactly(expected), host) => expected == host,
            (Pattern::Below(name), Host::Domain(host)) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (Pattern::Below(_), _) => false,
        })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let problem = || format!("`{text}` is none of `host.example`, `*.host.example` and `*`");
        if text == "*" {
            return Ok(Self::Any);
        }
        let (is_below, name) = text.strip_prefix("*.").map_or((false, text), |name| (true, name));
        match (is_below, Host::parse(name).map(plain)) {
            (_, Ok(Host::Domain(name))) if name.is_empty() || name.contains('*') => Err(problem()),
            (true, Ok(Host::Domain(name))) => Ok(Self::Below(name)),
            (false, Ok(host)) => Ok(Self::Exactly(host)),
            _ => Err(problem()),
        }
    }
}

/// A name with a dot at its end is the same name. Everything else the parser has made equal.
fn plain(host: Host) -> Host {
    match host {
        Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
        address => address,
    }
}
