//! `agentctl token`: credentials for development, signed with a key of the operator's own.

use baton_core::Principal;
use baton_core::clock::Clock;
use baton_core::config::Config;
use baton_core::tokens::{Grant, Minter};
use secrecy::ExposeSecret;

use crate::args::{Global, TokenMint};
use crate::exit::Failure;
use crate::render;

/// The one command that prints a secret: that is what it is for.
pub(crate) fn mint(global: &Global, args: TokenMint) -> Result<(), Failure> {
    let auth = Config::load(global.config.as_deref())?.auth;
    // What the server would refuse, or take for nothing, is said here and not there, where a 401 says nothing.
    Principal::new(&args.tenant, &args.principal, [])?;
    if args.scope.is_empty() && args.role.is_empty() {
        return Err(Failure::usage("give --role or --scope: a token without either may do nothing"));
    }
    if let Some(role) = args.role.iter().find(|role| !auth.roles.contains_key(*role)) {
        let known = auth.roles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let failure = Failure::usage(format!("`{role}` is no role of `auth.roles`, which are {known}"));
        return Err(if global.config.is_some() { failure } else { failure.hint("give the --config FILE that names it") });
    }
    let missing = |flag: &str| Failure::usage(format!("give --{flag}, or set `auth.{flag}` in --config FILE"));
    let minter = match (&args.secret_file, &args.key) {
        (Some(file), None) => Minter::with_secret(file),
        (None, Some(file)) => Minter::with_private_key(file),
        _ => return Err(Failure::usage("give --secret-file or --key: a token is signed")),
    };
    let grant = Grant {
        issuer: args.issuer.or(auth.issuer).ok_or_else(|| missing("issuer"))?,
        audience: args.audience.or(auth.audience).ok_or_else(|| missing("audience"))?,
        tenant: args.tenant,
        principal: args.principal,
        scopes: args.scope,
        roles: args.role,
        ttl: args.ttl,
    };
    let failed = |error| Failure::settings(&error);
    let token = minter.map_err(failed)?.mint(&grant, args.kid, Clock::system().now()).map_err(failed)?;
    if global.json {
        render::json(&serde_json::json!({"token": token.expose_secret()}))
    } else {
        render::line(token.expose_secret())
    }
}
