//! The only door: what handlers and commands call.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;

use crate::agents::{AgentService, Catalogue, Versions};
use crate::approvals::ApprovalService;
use crate::artifacts::ArtifactService;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{self, Role};
use crate::error::Error;
use crate::error::chain;
use crate::events::Hub;
use crate::events::follow::Follow;
use crate::events::log::Log;
use crate::fault::Faults;
use crate::idempotency::KeyTtl;
use crate::models::Policies;
use crate::notify::Notifier;
use crate::queue::QueueService;
use crate::runs::{Backlog, RunService, Submissions};
use crate::sessions::SessionService;

/// Whoever asks whether we are ready does not wait longer for the answer.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// Every service of a process. Each call takes a principal first and returns a view.
#[derive(Debug, Clone)]
pub struct Services {
    pub sessions: SessionService,
    pub runs: RunService,
    pub approvals: ApprovalService,
    pub artifacts: ArtifactService,
    pub agents: AgentService,
    pub queue: QueueService,
    pool: PgPool,
}

impl Services {
    /// Opens services on a pool; listens and notifies on connections beside it, unless notifications are off.
    ///
    /// # Errors
    /// `Malformed` where the database's URL is; `Internal` where the model policies are not those of a checked configuration.
    pub fn open(
        config: &Config,
        role: Role,
        pool: PgPool,
        clock: Clock,
        agents: Catalogue,
        faults: Faults,
    ) -> Result<Self, Error> {
        let ways = db::ways(&config.database, role)?;
        let submissions = Submissions::start(pool.clone());
        let notifier = ways.as_ref().map_or_else(Notifier::off, |ways| Notifier::start(&ways.notify));
        let (key_ttl, agents) = (KeyTtl(config.idempotency.ttl), Arc::new(agents));
        let follow = Follow::new(Log::apart(&pool), Hub::start(pool.clone(), ways), config.stream.max_lag);
        Ok(Self {
            sessions: SessionService {
                pool: pool.clone(),
                clock: clock.clone(),
                notifier: notifier.clone(),
                follow: follow.clone(),
                agents: Arc::clone(&agents),
                key_ttl,
            },
            artifacts: ArtifactService { pool: pool.clone(), clock: clock.clone(), config: config.artifacts.clone() },
            agents: AgentService { agents },
            queue: QueueService { pool: pool.clone() },
            approvals: ApprovalService { pool: pool.clone(), notifier: notifier.clone(), faults: faults.clone() },
            runs: RunService {
                pool: pool.clone(),
                clock,
                notifier,
                submissions,
                follow,
                versions: Versions::new(pool.clone()),
                policies: Policies::new(config).map_err(Error::internal)?,
                key_ttl,
                route_input: config.sessions.route_input,
                backlog: Backlog::new(pool.clone(), config.tenant.max_queued_runs),
                tenant_max_running: config.tenant.max_running.map(i32::from),
                faults,
            },
            pool,
        })
    }

    /// Waits until the hints of the calls before have been sent: for a process that is about to end.
    pub async fn flush(&self) {
        self.runs.notifier.flush().await;
    }

    /// One round trip, and whether the schema is the one that this program knows.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn ready(&self) -> Result<(), Error> {
        let unavailable = Error::Unavailable { retry_after_seconds: 2, source: None };
        match tokio::time::timeout(READY_TIMEOUT, db::check_schema(&self.pool)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "not ready");
                Err(unavailable)
            }
            Err(_) => {
                tracing::warn!("not ready: the database does not answer");
                Err(unavailable)
            }
        }
    }
}
