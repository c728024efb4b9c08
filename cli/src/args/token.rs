//! What `agentctl token` takes.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use baton_core::Scope;
use clap::{Args as ClapArgs, Subcommand};
use secrecy::SecretString;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Sign a token with a key of yours, and print it
    Mint(TokenMint),
}

#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("signing").required(true).args(["secret_file", "key"]))]
pub(crate) struct TokenMint {
    /// The secret of HS256, as `auth.keys` names it
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// A private key in PEM (PKCS#8): RS256, ES256 or EdDSA, as its kind says
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The name of the key, where it has one
    #[arg(long)]
    pub(crate) kid: Option<String>,
    /// Whose data the token is for
    #[arg(long)]
    pub(crate) tenant: String,
    /// Who it is for: the owner of what is made with it
    #[arg(long)]
    pub(crate) principal: String,
    /// What the token allows; may be given several times
    #[arg(long)]
    pub(crate) scope: Vec<Scope>,
    /// A role of `auth.roles`: `member`, `approver`, `operator` or one of --config; may be given several times, and they add up
    #[arg(long)]
    pub(crate) role: Vec<String>,
    /// How long the token is good: `15m`, `8h`
    #[arg(long, default_value = "1h", value_parser = ttl)]
    pub(crate) ttl: Duration,
    /// `iss` [default: `auth.issuer`]
    #[arg(long)]
    pub(crate) issuer: Option<String>,
    /// `aud` [default: `auth.audience`]
    #[arg(long)]
    pub(crate) audience: Option<String>,
}

/// Held so that it is not printed by accident.
pub(crate) fn secret(text: &str) -> Result<SecretString, Infallible> {
    Ok(text.into())
}

fn ttl(text: &str) -> Result<Duration, &'static str> {
    let duration: jiff::SignedDuration = text.parse().map_err(|_| "a duration is written `90s`, `15m` or `8h`")?;
    Duration::try_from(duration).ok().filter(|ttl| ttl.as_secs() > 0).ok_or("a token is good for a second at least")
}
