//! From flags, files and variables to services, or to the address of the API.

use std::path::{Path, PathBuf};

use baton_core::agents::Catalogue;
use baton_core::clock::Clock;
use baton_core::config::{Artifacts, Config};
use baton_core::db::{self, Role, SchemaError};
use baton_core::fault::Faults;
use baton_core::{Principal, Scope, Services};

use reqwest::Url;
use secrecy::SecretString;

use crate::args::{Caller, Global};
use crate::client::{Client, Details};
use crate::exit::{Exit, Failure};
use crate::hints::Hints;
use crate::ready::{self, DevReady};

/// The file in which a running `dev` says where it is.
pub(crate) const DEV_FILE: &str = "dev.json";

/// Where Postgres is unless its address says otherwise.
const POSTGRES_PORT: u16 = 5432;

const NO_DEV: &str = "nothing runs here: start `agentctl dev`";

/// The configuration, with the database of the running `dev` where none is named.
pub(crate) fn config(global: &Global) -> Result<Config, Failure> {
    let mut config = Config::load(global.config.as_deref())?;
    if config.database.url.is_none()
        && let Some(dev) = running_dev(&global.data_dir)
    {
        config.database.url = Some(dev.database_url);
        config.artifacts.folder = artifacts_folder(&config, &global.data_dir);
    }
    if config.database.url.is_none() {
        return Err(Failure::new(Exit::Unavailable, format!("{NO_DEV}, or set DATABASE_URL")));
    }
    Ok(config)
}

/// Where `dev` keeps the bytes of artifacts: in its data folder, unless it is told otherwise.
pub(crate) fn artifacts_folder(config: &Config, data_dir: &Path) -> PathBuf {
    let configured = &config.artifacts.folder;
    if *configured == Artifacts::default().folder { data_dir.join("artifacts") } else { configured.clone() }
}

pub(crate) fn running_dev(data_dir: &Path) -> Option<DevReady> {
    ready::read(&data_dir.join(DEV_FILE))
}

/// The API: at the address that was given, or that of the running `dev`.
pub(crate) fn client(global: &Global, url: Option<&str>, token: Option<SecretString>) -> Result<Client, Failure> {
    if global.config.is_some() {
        Config::load(global.config.as_deref())?; // a file that is named has to be right, also where only its name is used
    }
    let dev = || running_dev(&global.data_dir).map(|dev| dev.url);
    let address = url.map(str::to_owned).or_else(dev);
    let address = address.ok_or_else(|| Failure::new(Exit::Unavailable, format!("{NO_DEV}, or give --url")))?;
    let hints = Hints::of_client(global, url, token.as_ref(), &address);
    let details = if global.json { Details::Shown } else { Details::ForPeople };
    Client::new(address, token, hints, details)
}

/// Which database does not answer, or has another schema: by its server alone, for the rest may be a secret.
pub(crate) fn no_database(config: &Config, error: &SchemaError) -> Failure {
    let url = config.database.url.as_deref().and_then(|url| Url::parse(url).ok());
    let host = url.as_ref().and_then(Url::host_str).filter(|host| !host.is_empty());
    let port = url.as_ref().and_then(Url::port).unwrap_or(POSTGRES_PORT);
    let at = host.map(|host| format!(" at {host}:{port}")).unwrap_or_default();
    Failure::unavailable(&format!("the database{at}"), error)
}

/// The services of an operator's command: the same that the API's handlers call.
pub(crate) async fn services(global: &Global, caller: &Caller) -> Result<(Services, Principal), Failure> {
    let config = config(global)?;
    let principal = Principal::new(&caller.tenant, &caller.principal, Scope::ALL.iter().copied())?;
    let pool = db::connect(&config.database, Role::Command)?;
    db::check_schema(&pool).await.map_err(|error| no_database(&config, &error))?;
    // No agents: an operator's command creates no session.
    let services = Services::open(&config, Role::Command, pool, Clock::system(), Catalogue::default(), Faults::default())?;
    Ok((services, principal))
}
