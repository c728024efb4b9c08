//! Everything in this process: the router on a real socket, a worker that the test drives, a real database.

use std::sync::Arc;
use std::time::Duration;

use baton_api::{ApiState, Authenticator, Bind};
use baton_core::agents::Catalogue;
use baton_core::clock::Clock;
use baton_core::config::Config;
use baton_core::db::{self, Role};
use baton_core::fault::Faults;
use baton_core::policy::Profiles;
use baton_core::{Error, Principal, Scope, Services};
use baton_worker::Worker;
use http::request::Parts;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::audit::audit;
use super::database::TestDatabase;
use super::http::Http;

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
    database: TestDatabase,
    shutdown: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(&mut Config)) -> Self {
        let database = TestDatabase::create().await;
        let mut config = Config { database: database.config(), ..Config::default() };
        config.agents.folder = Some(super::agents_folder());
        adjust(&mut config);
        let (clock, faults) = (Clock::system(), Faults::default());
        let (services, url, shutdown, server) = serve(&config, &clock, &faults).await;
        let pool = db::connect(&config.database, Role::Worker).unwrap();
        let worker = Worker::new(&config, "test".into(), pool, clock.clone(), faults.clone()).unwrap();
        worker.register().await.unwrap();
        Self {
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
        let pool = db::connect(&self.config.database, Role::Worker).unwrap();
        let worker = Worker::new(&self.config, "another".into(), pool, Clock::system(), faults).unwrap();
        worker.register().await.unwrap();
        worker
    }

    /// Executes what is due until nothing is. Nobody else renews the worker's lease, without which it claims nothing.
    pub(crate) async fn work(&self) {
        self.worker.renew().await.unwrap();
        while self.worker.tick().await.unwrap() > 0 {}
    }

    /// Moves a worker's lease into the past, as if it had not been renewed.
    pub(crate) async fn expire_workers(&self) {
        sqlx::query("UPDATE workers SET started_at = started_at - interval '1 hour', expires_at = now() - interval '1 second' WHERE NOT dead")
            .execute(&self.pool)
            .await
            .unwrap();
    }

    /// Ends the test: the audit, then the database goes.
    pub(crate) async fn finish(self) {
        audit(&self.pool).await;
        self.shutdown.cancel();
        self.server.await.unwrap();
        drop((self.services, self.worker));
        self.database.remove().await;
    }
}

async fn serve(
    config: &Config,
    clock: &Clock,
    faults: &Faults,
) -> (Services, String, CancellationToken, tokio::task::JoinHandle<()>) {
    let pool = db::connect(&config.database, Role::Api).unwrap();
    let profiles = Profiles::load(config.policy.folder.as_deref()).unwrap();
    let agents = Catalogue::load(&pool, &config.agents, &profiles).await.unwrap();
    let services = Services::open(config, Role::Api, pool, clock.clone(), agents, faults.clone()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let state = ApiState {
        services: services.clone(),
        authenticator: Arc::new(TestAuthenticator),
        clock: clock.clone(),
        bind: Bind::Loopback,
        shutdown: shutdown.clone(),
        heartbeat: Duration::from_millis(500),
    };
    let server = tokio::spawn({
        let shutdown = shutdown.clone();
        async move { baton_api::serve(listener, baton_api::router(state), shutdown).await.unwrap() }
    });
    (services, url, shutdown, server)
}

/// Answers as whom the test says: `x-test-principal: tenant/principal`, `x-test-scopes: a b`; without them as in dev mode;
/// `x-test-principal: nobody` has no credential.
#[derive(Debug)]
struct TestAuthenticator;

impl Authenticator for TestAuthenticator {
    fn authenticate(&self, request: &Parts) -> Result<Principal, Error> {
        let header = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
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
