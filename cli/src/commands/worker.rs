//! `agentctl worker`: executes runs until it is told to stop.

use baton_core::agents;
use baton_core::artifacts::ArtifactStore;
use baton_core::clock::Clock;
use baton_core::db::{self, Role};
use baton_core::fault::Faults;
use baton_core::models::{self, Policies};
use baton_core::policy::Profiles;
use baton_core::tools;
use baton_core::tools::pipeline::Pipeline;

use crate::args::{Global, Worker};
use crate::connection;
use crate::exit::Failure;
use crate::ready::{self, ProcessReady};
use crate::signals;

pub(crate) async fn run(global: &Global, args: Worker) -> Result<(), Failure> {
    let mut config = connection::config(global)?;
    config.agents.folder = args.agents.or(config.agents.folder);
    let shutdown = signals::shutdown().map_err(|error| Failure::unavailable("signals", &error))?;

    let policies = Policies::new(&config).map_err(|error| Failure::settings(&error))?;
    let variable = |name: &str| std::env::var(name).ok();
    let clock = Clock::system();
    let pipeline = Pipeline {
        tools: tools::Catalogue::builtin(&config).map_err(|error| Failure::unavailable("tools", &error))?,
        profiles: Profiles::load(config.policy.folder.as_deref())?,
        artifacts: ArtifactStore::open(&config.artifacts, clock.clone())
            .map_err(|error| Failure::unavailable("artifacts", &error))?,
        clock,
        faults: Faults::from_env(),
    };
    let pool = db::connect(&config.database, Role::Worker)?;
    db::check_schema(&pool).await.map_err(|error| connection::no_database(&config, &error))?;
    // Sessions read their version from the database; a worker stores those of its files so that either may be deployed first.
    let agents = agents::Catalogue::load(&pool, &config.agents, &pipeline.profiles, &policies).await?;
    models::require_keys(&policies, agents.model_policies(), variable).map_err(|error| Failure::settings(&error))?;

    let worker = baton_worker::Worker::new(&config, hostname(), pool, pipeline)?;
    worker.register().await?;
    if let Some(file) = args.ready_file {
        let ready = ProcessReady { pid: std::process::id(), url: None };
        ready::write(&file, &ready).map_err(|error| Failure::unavailable("the ready file", &error))?;
    }
    Ok(worker.run(shutdown).await?)
}

fn hostname() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".into())
}
