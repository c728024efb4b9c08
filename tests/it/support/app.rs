//! Everything in this process: the router on a real socket, a worker that the test drives, a real database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_api::{ApiState, Authenticator, Bind, CorsOrigins, Streams};
use baton_core::agents;
use baton_core::artifacts::ArtifactStore;
use baton_core::clock::Clock;
use baton_core::config::{AuthMode, Config, Tools};
use baton_core::db::{self, Role};
use baton_core::fault::{Action, Faults, Point};
use baton_core::models::Policies;
use baton_core::policy::Profiles;
use baton_core::tools::pipeline::Pipeline;
use baton_core::tools::{self, Tool};
use baton_core::{Error, Principal, Scope, Services};
use baton_worker::Worker;
use futures::future::{BoxFuture, FutureExt};
use http::HeaderMap;
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::audit::audit;
use super::database::TestDatabase;
use super::http::Http;
use super::wait::eventually;

const EFFECTS_FILE: &str = "effects.log";

#[derive(Debug)]
pub(crate) struct TestApp {
    pub(crate) http: Http,
    pub(crate) services: Services,
    /// Registered; does nothing until the test drives it.
    pub(crate) worker: Worker,
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    pub(crate) config: Config,
    pub(crate) pool: PgPool,
    /// What the built-in tools may do, and those of the test.
    tools: Vec<Arc<dyn Tool>>,
    folder: TempDir,
    database: TestDatabase,
    shutdown: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(&mut Config)) -> Self {
        Self::start_with_tools(|_| Vec::new(), adjust).await
    }

    /// Its worker has these tools beside those that are built in; they are made for its file of effects.
    pub(crate) async fn start_with_tools(
        tools: impl FnOnce(&Path) -> Vec<Arc<dyn Tool>>,
        adjust: impl FnOnce(&mut Config),
    ) -> Self {
        Self::start_at(Clock::system(), tools, adjust).await
    }

    /// With a clock of the test's own.
    pub(crate) async fn start_at(
        clock: Clock,
        tools: impl FnOnce(&Path) -> Vec<Arc<dyn Tool>>,
        adjust: impl FnOnce(&mut Config),
    ) -> Self {
        let database = TestDatabase::create().await;
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { database: database.config(), ..Config::default() };
        config.agents.folder = Some(super::agents_folder());
        config.policy.folder = Some(super::policies_folder());
        config.artifacts.folder = folder.path().join("artifacts");
        config.demo.effects_file = Some(folder.path().join(EFFECTS_FILE));
        let tools = tools(&folder.path().join(EFFECTS_FILE));
        adjust(&mut config);
        let faults = Faults::default();
        let (services, url, shutdown, server) = serve(&config, &clock, &faults).await;
        let pool = db::connect(&config.database, Role::Worker).unwrap();
        let worker = new_worker(&config, pool, &tools, clock.clone(), faults.clone());
        worker.register().await.unwrap();
        Self {
            tools,
            folder,
            http: Http::new(url),
            services,
            worker,
            clock,
            faults,
            config,
            pool: database.pool.clone(),
            database,
            shutdown,
            server,
        }
    }

    /// Another worker process, as far as the database can tell.
    pub(crate) async fn another_worker(&self, faults: Faults) -> Worker {
        self.another_worker_with(faults, &self.tools, |_| {}).await
    }

    /// The same, of another build or with other settings.
    pub(crate) async fn another_worker_with(
        &self,
        faults: Faults,
        tools: &[Arc<dyn Tool>],
        adjust: impl FnOnce(&mut Config),
    ) -> Worker {
        let mut config = self.config.clone();
        adjust(&mut config);
        let pool = db::connect(&config.database, Role::Worker).unwrap();
        let worker = new_worker(&config, pool, tools, Clock::system(), faults);
        worker.register().await.unwrap();
        worker
    }

    /// What `demo.external_write` and the tools of the test have done, each line an effect.
    pub(crate) fn effects(&self) -> Vec<String> {
        super::effects(&self.effects_file())
    }

    pub(crate) fn effects_file(&self) -> PathBuf {
        self.folder.path().join(EFFECTS_FILE)
    }

    /// Executes what is due until nothing is. Nobody else renews the worker's lease, without which it claims nothing.
    pub(crate) async fn work(&self) {
        loop {
            self.worker.renew().await.unwrap();
            if self.worker.tick().await.unwrap() == 0 {
                return;
            }
        }
    }

    /// Moves a worker's lease into the past, as if it had not been renewed.
    pub(crate) async fn expire_workers(&self) {
        sqlx::query("UPDATE workers SET started_at = started_at - interval '1 hour', expires_at = now() - interval '1 second' WHERE NOT dead")
            .execute(&self.pool)
            .await
            .unwrap();
    }

    /// Makes what was asked expire so long from now, negative: in the past; as if it had been asked for another time. The log
    /// says the same as the row.
    pub(crate) async fn expire_in(&self, asked: Asked, id: Uuid, milliseconds: i32) {
        let (table, event_type, member) = match asked {
            Asked::Approval => ("approvals", "approval.requested", "approval_id"),
            Asked::Question => ("questions", "run.waiting_for_user", "question_id"),
        };
        let query = format!(
            r#"WITH asked AS (
                UPDATE {table} SET expires_at = now() + $2 * interval '1 millisecond' WHERE id = $1 RETURNING run_id, expires_at
            )
            UPDATE events e SET body = regexp_replace(e.body, '"expires_at":"[^"]*"',
                '"expires_at":"' || to_char(asked.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"')
            FROM asked WHERE e.run_id = asked.run_id AND e.type = '{event_type}' AND e.body::jsonb ->> '{member}' = $1::text"#
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(id).bind(milliseconds);
        assert_eq!(query.execute(&self.pool).await.unwrap().rows_affected(), 1, "{asked:?} {id}");
    }

    /// Every worker's process is gone, as far as the database can tell; the test's own starts over, and finds their runs.
    pub(crate) async fn lose_workers(&self, run_id: Uuid) {
        self.expire_workers().await;
        self.worker.renew().await.unwrap(); // declared dead with the others
        eventually("nobody owns the run", || async {
            self.worker.sweep().await.unwrap();
            self.worker.renew().await.unwrap();
            let query = sqlx::query_scalar("SELECT lease_owner IS NULL FROM runs WHERE id = $1").bind(run_id);
            let is_free: bool = query.fetch_one(&self.pool).await.unwrap();
            is_free.then_some(())
        })
        .await;
    }

    /// A worker dies when the model has answered this often, before anybody has written it down.
    pub(crate) async fn lose_worker_at_answer(&self, run_id: Uuid, answers: u32) {
        let faults = Faults::default();
        faults.arm(Point::AfterModel, Action::Pause(Arc::new(Semaphore::new(0))), answers);
        let worker = self.another_worker(faults.clone()).await;
        let execution = tokio::spawn(async move { worker.tick().await.unwrap() });
        eventually("the model has answered", || async { (!faults.is_armed(Point::AfterModel)).then_some(()) }).await;
        execution.abort();
        self.lose_workers(run_id).await;
    }

    /// Ends the test: the audit, then the database goes.
    pub(crate) async fn finish(self) {
        audit(&self.pool).await;
        self.finish_unaudited().await;
    }

    /// The same where the test has edited rows against their log.
    pub(crate) async fn finish_unaudited(self) {
        self.shutdown.cancel();
        self.server.await.unwrap();
        drop((self.services, self.worker));
        self.database.remove().await;
    }
}

/// What a run has asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    Approval,
    Question,
}

/// A worker with the built-in tools and these.
fn new_worker(config: &Config, pool: PgPool, tools: &[Arc<dyn Tool>], clock: Clock, faults: Faults) -> Worker {
    // Which of them are disabled is asked of all together, below.
    let none_disabled = Tools { disabled: Vec::new(), ..config.tools.clone() };
    let builtin = Config { tools: none_disabled, ..config.clone() };
    let builtin = tools::Catalogue::builtin(&builtin).unwrap();
    let builtin = builtin.names().filter_map(|name| builtin.entry(name)).map(|entry| Arc::clone(&entry.tool));
    let pipeline = Pipeline {
        tools: tools::Catalogue::new(builtin.chain(tools.iter().cloned()).collect(), &config.tools.disabled).unwrap(),
        profiles: Profiles::load(config.policy.folder.as_deref()).unwrap(),
        artifacts: ArtifactStore::open(&config.artifacts, clock.clone()).unwrap(),
        clock,
        faults,
    };
    Worker::new(config, "test".into(), pool, pipeline).unwrap()
}

async fn serve(
    config: &Config,
    clock: &Clock,
    faults: &Faults,
) -> (Services, String, CancellationToken, tokio::task::JoinHandle<()>) {
    let pool = db::connect(&config.database, Role::Api).unwrap();
    let profiles = Profiles::load(config.policy.folder.as_deref()).unwrap();
    let agents = agents::Catalogue::load(&pool, &config.agents, &profiles, &Policies::new(config).unwrap()).await.unwrap();
    let services = Services::open(config, Role::Api, pool, clock.clone(), agents, faults.clone()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let authenticator = match config.auth.mode {
        AuthMode::Dev => Arc::new(TestAuthenticator),
        AuthMode::Jwt => baton_api::authenticator(&config.auth, &Bind::Loopback, clock).await.unwrap(),
    };
    let limits = Arc::new(config.server.clone());
    let state = ApiState {
        services: Arc::new(services.clone()),
        authenticator,
        clock: clock.clone(),
        bind: Bind::Loopback,
        cors_origins: CorsOrigins::new(&config.server.cors_origins),
        limits: Arc::clone(&limits),
        streams: Streams::new(config.server.streams_max(config.auth.mode)),
        shutdown: shutdown.clone(),
        heartbeat: Duration::from_millis(500),
    };
    let server = tokio::spawn({
        let shutdown = shutdown.clone();
        async move {
            baton_api::serve(listener, baton_api::router(state), limits, shutdown).await;
        }
    });
    (services, url, shutdown, server)
}

/// Answers as whom the test says: `x-test-principal: tenant/principal`, `x-test-scopes: a b`; without them as in dev mode;
/// `x-test-principal: nobody` has no credential.
#[derive(Debug)]
struct TestAuthenticator;

impl Authenticator for TestAuthenticator {
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, Error>> {
        std::future::ready(Self::principal(headers)).boxed()
    }
}

impl TestAuthenticator {
    fn principal(headers: &HeaderMap) -> Result<Principal, Error> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(principal) = header("x-test-principal") else { return Ok(Principal::dev()) };
        let (tenant, principal) = principal.split_once('/').ok_or(Error::Authentication)?;
        let scopes: Vec<Scope> = match header("x-test-scopes") {
            Some(scopes) => scopes.split_whitespace().map(|scope| scope.parse().unwrap()).collect(),
            // Nobody reads what is others' by accident.
            None => Scope::ALL.iter().copied().filter(|scope| *scope != Scope::OperatorRead).collect(),
        };
        Principal::new(tenant, principal, scopes)
    }
}
