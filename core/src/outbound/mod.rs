//! The only place that makes HTTP clients.

use std::time::Duration;

/// Longest time to connect to a server of ours.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The client of the command line, for the one address that its operator gave: no proxy from the environment, no redirect.
///
/// # Errors
/// Where the machine has no random numbers or no TLS.
pub fn operator_client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).connect_timeout(CONNECT_TIMEOUT).build()
}

/// Longest time that a key set may take, from the first byte of the request to the last of the answer: requests wait for it.
const KEY_SET_TIMEOUT: Duration = Duration::from_secs(5);

/// The client that reads published keys, from the one address of the configuration: no proxy, no redirect.
///
/// # Errors
/// Where the machine has no random numbers or no TLS.
pub fn key_set_client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(KEY_SET_TIMEOUT).build()
}
