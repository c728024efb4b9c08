//! `agentctl api`: serves HTTP until it is told to stop.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use baton_api::{ApiState, Bind, CorsOrigins, HEARTBEAT, NoAuthenticator, Streams};
use baton_core::Services;
use baton_core::agents::Catalogue;
use baton_core::artifacts::ArtifactStore;
use baton_core::clock::Clock;
use baton_core::config::{AuthMode, Config};
use baton_core::db::{self, Role};
use baton_core::fault::Faults;
use baton_core::models::Policies;
use baton_core::policy::Profiles;
use tokio::net::TcpListener;

use crate::args::{Api, Global};
use crate::connection;
use crate::exit::Failure;
use crate::ready::{self, ProcessReady};
use crate::signals;

pub(crate) async fn run(global: &Global, args: Api) -> Result<(), Failure> {
    let mut config = connection::config(global)?;
    config.server.listen = args.listen.unwrap_or(config.server.listen);
    config.agents.folder = args.agents.or(config.agents.folder);
    let shutdown = signals::shutdown().map_err(|error| Failure::unavailable("signals", &error))?;

    let profiles = Profiles::load(config.policy.folder.as_deref())?;
    let policies = Policies::new(&config).map_err(|error| Failure::settings(&error))?;
    let pool = db::connect(&config.database, Role::Api)?;
    db::check_schema(&pool).await.map_err(|error| connection::no_database(&config, &error))?;
    let agents = Catalogue::load(&pool, &config.agents, &profiles, &policies).await?;
    let clock = Clock::system();
    // Opened again for each artifact that is read; a folder that cannot be used is to be known now.
    ArtifactStore::open(&config.artifacts, clock.clone()).map_err(|error| Failure::unavailable("artifacts", &error))?;
    let services = Services::open(&config, Role::Api, pool, clock.clone(), agents, Faults::from_env())?;

    let listener = TcpListener::bind(config.server.listen).await.map_err(|error| not_bound(config.server.listen, &error))?;
    let address = listener.local_addr().map_err(|error| Failure::unavailable("listening", &error))?;
    let bind = bind(address, &config)?;
    let authenticator = baton_api::authenticator(&config.auth, &bind, &clock).await.map_err(|error| Failure::settings(&error))?;
    let streams = Streams::new(config.server.streams_max(config.auth.mode));
    let limits = Arc::new(config.server);
    let state = ApiState {
        services: Arc::new(services),
        authenticator,
        clock,
        bind,
        cors_origins: CorsOrigins::new(&limits.cors_origins),
        limits: Arc::clone(&limits),
        streams,
        shutdown: shutdown.clone(),
        heartbeat: HEARTBEAT,
    };
    let url = format!("http://{address}");
    tracing::info!(%url, "the API answers");
    if let Some(file) = args.ready_file {
        let ready = ProcessReady { pid: std::process::id(), url: Some(url) };
        ready::write(&file, &ready).map_err(|error| Failure::unavailable("the ready file", &error))?;
    }
    baton_api::serve(listener, baton_api::router(state), limits, shutdown).await;
    Ok(())
}

fn not_bound(address: SocketAddr, error: &std::io::Error) -> Failure {
    let failure = Failure::unavailable(&format!("listening on {address}"), error);
    if error.kind() == ErrorKind::AddrInUse { failure.hint("`--listen 127.0.0.1:0` picks a free port") } else { failure }
}

/// Whoever listens where others can reach it hears at once of everything that is missing.
fn bind(address: SocketAddr, config: &Config) -> Result<Bind, Failure> {
    Bind::new(address, &config.server.allowed_hosts).map_err(|refusal| {
        let failure = Failure::usage(refusal.to_string()).hint("`server.allowed_hosts` names them");
        if config.auth.mode == AuthMode::Dev { failure.hint(&NoAuthenticator::DevIsRoutable.to_string()) } else { failure }
    })
}
