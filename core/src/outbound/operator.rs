//! Clients without the guard, by name: each goes to the one address that an operator gave it, wherever that is.

use std::time::Duration;

use crate::outbound::client::unproxied;

/// Longest time to connect to a server of ours.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The client of the command line, whose server is most often on the same machine.
///
/// # Errors
/// Where the machine has no random numbers or no TLS.
pub fn operator_client() -> Result<reqwest::Client, reqwest::Error> {
    unproxied().connect_timeout(CONNECT_TIMEOUT).build()
}

/// Longest time that a key set may take, from the first byte of the request to the last of the answer: requests wait for it.
const KEY_SET_TIMEOUT: Duration = Duration::from_secs(5);

/// The client that reads published keys, from the one address of the configuration: an issuer may well be in a private network.
///
/// # Errors
/// Where the machine has no random numbers or no TLS.
pub fn key_set_client() -> Result<reqwest::Client, reqwest::Error> {
    unproxied().timeout(KEY_SET_TIMEOUT).build()
}
