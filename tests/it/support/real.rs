//! Real processes on a real database: API and workers as they run in production.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sqlx::PgPool;
use tempfile::TempDir;

use super::audit::audit;
use super::database::{TestDatabase, pool};
use super::http::Http;
use super::process::Process;
use super::wait::eventually;

/// Leases that expire while a test looks on.
pub(crate) const SHORT_LEASE: &[(&str, &str)] =
    &[("BATON_WORKER__LEASE", "2s"), ("BATON_WORKER__RENEW", "600ms"), ("BATON_WORKER__SWEEP_INTERVAL", "300ms")];

#[derive(Debug)]
pub(crate) struct RealApp {
    pub(crate) http: Http,
    pub(crate) api: Option<Process>,
    pub(crate) pool: PgPool,
    pub(crate) url: String,
    variables: Vec<(String, String)>,
    folder: TempDir,
    database: Option<TestDatabase>,
}

impl RealApp {
    /// An API on a fresh database; workers are started by the test.
    pub(crate) async fn start(variables: &[(&str, &str)]) -> Self {
        let database = TestDatabase::create().await;
        let url = database.url.clone();
        let mut app = Self::on(&url, variables).await;
        app.database = Some(database);
        app
    }

    /// An API on a migrated database of the test's own.
    pub(crate) async fn on(url: &str, variables: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut app = Self {
            http: Http::new(String::new()),
            api: None,
            pool: pool(url, 4),
            url: url.to_owned(),
            variables: variables.iter().map(own).collect(),
            folder: tempfile::tempdir().unwrap(),
            database: None,
        };
        let (api, url) = app.start_api("127.0.0.1:0").await;
        (app.http, app.api) = (Http::new(url), Some(api));
        app
    }

    /// Another API process, on the address or on any.
    pub(crate) async fn start_api(&self, listen: &str) -> (Process, String) {
        let folder = super::agents_folder();
        let arguments = ["api", "--listen", listen, "--agents", folder.to_str().unwrap()];
        let (process, ready) = self.start_process(&arguments, &[]).await;
        (process, ready["url"].as_str().unwrap().to_owned())
    }

    /// Starts the API again where it was.
    pub(crate) async fn restart_api(&mut self) {
        let address = self.http.url.strip_prefix("http://").unwrap().to_owned();
        self.api = Some(self.start_api(&address).await.0);
    }

    /// Waits for the death of the API that a fault brings, and starts it again where it was.
    pub(crate) async fn replace_api(&mut self) {
        self.api.as_mut().unwrap().ended().await;
        self.restart_api().await;
    }

    pub(crate) fn kill_api(&mut self) {
        self.api.take().unwrap().kill();
    }

    pub(crate) async fn start_worker(&self) -> Process {
        self.start_worker_with(&[]).await
    }

    pub(crate) async fn start_worker_with(&self, variables: &[(&str, &str)]) -> Process {
        let folder = super::agents_folder();
        self.start_process(&["worker", "--agents", folder.to_str().unwrap()], variables).await.0
    }

    async fn start_process(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (Process, Value) {
        let ready_file = self.ready_file();
        let mut all = vec!["--data-dir", self.folder.path().to_str().unwrap()];
        all.extend(arguments);
        all.extend(["--ready-file", ready_file.to_str().unwrap()]);
        let (artifacts, effects) = (self.folder.path().join("artifacts"), self.effects_file());
        let policies = super::policies_folder();
        let mut environment = vec![
            ("DATABASE_URL", self.url.as_str()),
            ("BATON_ARTIFACTS__FOLDER", artifacts.to_str().unwrap()),
            ("BATON_DEMO__EFFECTS_FILE", effects.to_str().unwrap()),
            ("BATON_POLICY__FOLDER", policies.to_str().unwrap()),
        ];
        environment.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        environment.extend(variables);
        let process = Process::agentctl(&all, &environment);
        let ready = eventually("the process is ready", || async { read(&ready_file) }).await;
        (process, ready)
    }

    fn effects_file(&self) -> PathBuf {
        self.folder.path().join("effects.log")
    }

    /// What `demo.external_write` has done, each line an effect.
    pub(crate) fn effects(&self) -> Vec<String> {
        super::effects(&self.effects_file())
    }

    fn ready_file(&self) -> PathBuf {
        self.folder.path().join(format!("{}.json", baton_core::clock::Clock::system().new_id()))
    }

    /// Ends the test: the audit, then everything goes.
    pub(crate) async fn finish(mut self) {
        audit(&self.pool).await;
        drop(self.api.take());
        self.pool.close().await;
        if let Some(database) = self.database.take() {
            database.remove().await;
        }
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
