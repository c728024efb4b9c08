//! From flags, files and variables to services, or to the address of the API.

use std::path::{Path, PathBuf};

use baton_core::agents::Catalogue;
use baton_core::clock::Clock;
use baton_core::config::{Artifacts, Config};
use baton_core::db::{self, Role};
use baton_core::fault::Faults;
use baton_core::{Principal, Scope, Services};

use crate::args::{Caller, Global};
use crate::exit::{Exit, Failure};
use crate::ready::{self, DevReady};

/// The file in which a running `dev` says where it is.
pub(crate) const DEV_FILE: &str = "dev.json";

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

/// The address of the API, without a slash at its end.
pub(crate) fn api_url(global: &Global, url: Option<String>) -> Result<String, Failure> {
    let url = url.or_else(|| running_dev(&global.data_dir).map(|dev| dev.url));
    let url = url.ok_or_else(|| Failure::new(Exit::Unavailable, format!("{NO_DEV}, or give --url")))?;
    Ok(url.trim_end_matches('/').to_owned())
}

/// The services of an operator's command: the same that the API's handlers call.
pub(crate) async fn services(global: &Global, caller: &Caller) -> Result<(Services, Principal), Failure> {
    let config = config(global)?;
    let principal = Principal::new(&caller.tenant, &caller.principal, Scope::ALL.iter().copied())?;
    let pool = db::connect(&config.database, Role::Command)?;
    db::check_schema(&pool).await.map_err(|error| Failure::unavailable("the database", &error))?;
    // No agents: an operator's command creates no session.
    let services = Services::open(&config, Role::Command, pool, Clock::system(), Catalogue::default(), Faults::default())?;
    Ok((services, principal))
}
