//! Signed tokens: from a token to a [`crate::Principal`], and for development the way back.
//!
//! Which algorithm a key is for is configuration. A token says which key it wants (`kid`), and nothing else in its header
//! counts. Why a token is refused is told to no caller ([`Refusal`]).

mod claims;
mod key;
mod key_set;
mod mint;
mod published;
mod refusal;
mod verifier;

pub use mint::{Grant, Minter};
pub use published::ReadError;
pub use refusal::Refusal;
pub use verifier::Verifier;

use std::path::{Path, PathBuf};

use secrecy::{SecretSlice, zeroize::Zeroize};

/// A shorter secret can be guessed from one token; the library takes any.
const SECRET_BYTES_MIN: usize = 32;

/// Why tokens cannot be verified or made. Names the setting, and shows nothing of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("a secret of HS256 must have at least {SECRET_BYTES_MIN} bytes: that of {0} has fewer")]
    ShortSecret(String),
    #[error("the file `{0}` cannot be read")]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("the file `{0}` holds no {1} key in PEM")]
    WrongKey(PathBuf, &'static str),
    #[error("`auth.{0}` is needed")]
    Missing(&'static str),
    /// From where: a file, or an address without what may be nobody's business.
    #[error("the key set cannot be read from {0}")]
    KeySet(String, #[source] ReadError),
    #[error("a token cannot be signed with this key")]
    Unsigned,
}

/// The secret of a file. The line break that an editor leaves at its end does not belong to it.
fn read_secret(path: &Path) -> Result<SecretSlice<u8>, KeyError> {
    let mut bytes = std::fs::read(path).map_err(|error| KeyError::Unreadable(path.to_owned(), error))?;
    let text = bytes.strip_suffix(b"\n").map_or(bytes.as_slice(), |text| text.strip_suffix(b"\r").unwrap_or(text));
    let secret = long_enough(text).map(|text| SecretSlice::from(text.to_vec()));
    bytes.zeroize();
    secret.ok_or_else(|| KeyError::ShortSecret(in_file(path)))
}

fn in_file(path: &Path) -> String {
    format!("the file `{}`", path.display())
}

fn long_enough(secret: &[u8]) -> Option<&[u8]> {
    (secret.len() >= SECRET_BYTES_MIN).then_some(secret)
}

#[cfg(test)]
mod tests;
