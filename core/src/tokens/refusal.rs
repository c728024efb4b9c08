//! Why a token is no credential: for the log of whoever runs the server, who has both sides to compare. A caller hears only that it
//! is none, and nothing here holds a part of a token.

/// One thing that is wrong with a token; the first that is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it is too long to be looked at")]
    TooLong,
    #[error("it is no signed token")]
    NoToken,
    #[error("its header has `crit`, which nobody here understands")]
    Critical,
    #[error("it names no key (`kid`), and no key of `auth.keys` is for such tokens")]
    NoKid,
    #[error("its key (`kid`) is neither one of `auth.keys` nor one of the key set")]
    UnknownKid,
    #[error("its algorithm is not the one that its key is for")]
    Algorithm,
    #[error("its signature is not of its key")]
    Signature,
    #[error("it has no claim `{0}`")]
    Missing(&'static str),
    #[error("a claim of it has the wrong type")]
    Claims,
    #[error("`iss` is not `auth.issuer`")]
    Issuer,
    #[error("`aud` is not `auth.audience`")]
    Audience,
    #[error("it has expired (`exp`)")]
    Expired,
    #[error("it is not good yet (`nbf`)")]
    NotYet,
    #[error("`exp` or `nbf` is no time")]
    NoTime,
    #[error("`tenant` or `sub` is empty, too long or holds a control character")]
    Identifier,
}
