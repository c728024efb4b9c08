//! One typed configuration: defaults, then a file, then variables (`BATON_SERVER__LISTEN` is `server.listen`), then flags.
//! An unknown key refuses to start and is named.

mod auth;
mod error;
mod models;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use jiff::fmt::serde::unsigned_duration::friendly::compact::required as human;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::models::Policies;

pub use auth::{Algorithm, Auth, AuthKey, AuthMode};
pub use error::ConfigError;
pub(crate) use models::OLLAMA;
pub use models::{Model, Prices, Provider, ProviderKind, Providers};
pub use server::{Server, Stream};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub server: Server,
    pub auth: Auth,
    pub database: Database,
    pub agents: Agents,
    pub policy: Policy,
    pub providers: Providers,
    /// Model policies by name, beside `scripted`, which is built in.
    pub models: BTreeMap<String, Model>,
    pub worker: Worker,
    pub execution: Execution,
    pub tenant: Tenant,
    pub sessions: Sessions,
    pub stream: Stream,
    pub idempotency: Idempotency,
    pub retention: Retention,
    pub artifacts: Artifacts,
    pub tools: Tools,
    pub demo: Demo,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// `DATABASE_URL` sets it too.
    pub url: Option<String>,
    /// Where to LISTEN, where `url` leads through a pooler that hands connections from one transaction to the next. None: at `url`.
    pub listen_url: Option<String>,
    /// Connections of the pool, beside the few that listen, notify and renew leases.
    pub pool: u32,
    /// Off: nothing is sent or heard, and everything still works by polling.
    pub notifications: Notifications,
    #[serde(with = "human")]
    pub statement_timeout: Duration,
    #[serde(with = "human")]
    pub idle_in_transaction_session_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notifications {
    On,
    Off,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agents {
    /// Folder of agent files; without one there is the demo agent that the binary holds.
    pub folder: Option<PathBuf>,
    pub changed_file: ChangedFile,
}

/// What a file is that has the version of a stored agent and other content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedFile {
    /// A mistake: versions are frozen.
    #[default]
    Refused,
    /// The version `<version>+<8 of its hash>`, as dev mode wants it.
    NewVersion,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Folder of policy profiles, beside the profile `default` that the binary holds; a file may replace that one.
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// A process that has not renewed for so long is dead.
    #[serde(with = "human")]
    pub lease: Duration,
    #[serde(with = "human")]
    pub renew: Duration,
    #[serde(with = "human")]
    pub poll_interval: Duration,
    #[serde(with = "human")]
    pub sweep_interval: Duration,
    /// How long steps may take to reach a boundary at shutdown before their runs are handed back.
    #[serde(with = "human")]
    pub drain: Duration,
    pub slots: Slots,
}

/// Runs executed at once. They are waits, not threads. The first three are floors, never lent; `shared` is open to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slots {
    #[schema(required)]
    pub interactive: u16,
    #[schema(required)]
    pub r#async: u16,
    #[schema(required)]
    pub maintenance: u16,
    #[schema(required)]
    pub shared: u16,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Execution {
    /// The lease expiry that reaches this number fails the run: it kills its workers.
    pub lease_losses_max: u16,
    /// Estimated tokens of earlier conversation that a run starts from.
    pub history_tokens: u32,
    /// How long a question waits for its user, unless the run's deadline comes first.
    #[serde(with = "human")]
    pub question_ttl: Duration,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tenant {
    /// Runs of one tenant executed at once; soft by one batch per class. None: no cap.
    pub max_running: Option<u16>,
    /// Runs of one tenant waiting for a worker. An estimate, refreshed each second.
    pub max_queued_runs: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sessions {
    /// Whether a message to a session whose run waits for its user is the answer. False: a conflict, as with any unfinished run.
    pub route_input: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Idempotency {
    #[serde(with = "human")]
    pub ttl: Duration,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Sessions without an unfinished run in which nothing has happened for so long are deleted, whole. None: kept for ever.
    pub days: Option<u16>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Artifacts {
    /// Where the bytes of artifacts are; created if missing. Every process of an installation needs the same.
    pub folder: PathBuf,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tools {
    /// Names of tools that nobody may call, whatever their agent says.
    pub disabled: Vec<String>,
    /// Hosts that `http.fetch` may read from: a name, `*.` and a name for those below it, or `*`. None: the tool is not set up.
    pub fetch_hosts: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Demo {
    /// The file that `demo.external_write` appends to. None: the tool is not set up.
    pub effects_file: Option<PathBuf>,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: None,
            listen_url: None,
            pool: 16,
            notifications: Notifications::On,
            statement_timeout: Duration::from_secs(10),
            idle_in_transaction_session_timeout: Duration::from_secs(5),
        }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            renew: Duration::from_secs(3),
            poll_interval: Duration::from_millis(250),
            sweep_interval: Duration::from_secs(1),
            drain: Duration::from_secs(20),
            slots: Slots::default(),
        }
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self { interactive: 48, r#async: 24, maintenance: 4, shared: 24 }
    }
}

impl Default for Execution {
    fn default() -> Self {
        Self { lease_losses_max: 3, history_tokens: 32_000, question_ttl: Duration::from_secs(24 * 60 * 60) }
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self { max_running: None, max_queued_runs: 10_000 }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self { route_input: true }
    }
}

impl Default for Idempotency {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(24 * 60 * 60) }
    }
}

impl Default for Artifacts {
    fn default() -> Self {
        Self { folder: PathBuf::from(".baton/artifacts") }
    }
}

impl Config {
    /// Reads the file, where one is named, and the environment. Flags are set on the result by who parsed them.
    ///
    /// # Errors
    /// [`ConfigError`]: the message names the key.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Ok(host) = std::env::var("OLLAMA_HOST") {
            figment = figment.merge(Serialized::default("providers.ollama.base_url", models::ollama_url(&host)));
        }
        if let Some(file) = file {
            let text = std::fs::read_to_string(file).map_err(|_| ConfigError::NoFile(file.to_owned()))?;
            error::well_formed(&text)?;
            figment = figment.merge(Toml::file_exact(file));
        }
        // Only names with a section are settings: `BATON_PG_BINDIR` belongs to the private database.
        let variables = Env::prefixed("BATON_").filter(|name| name.as_str().contains("__")).split("__");
        let config: Self =
            figment.merge(variables).merge(Env::raw().only(&["DATABASE_URL"]).map(|_| "database.url".into())).extract()?;
        config.check()?;
        Ok(config)
    }

    /// The relations between settings without which the promises do not hold.
    fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key, problem| Err(ConfigError::Invalid { key, problem });
        if self.worker.renew * 2 > self.worker.lease {
            return invalid("worker.renew", "must be at most half of `worker.lease`, or one late renewal loses every run");
        }
        if self.worker.lease.is_zero()
            || self.worker.poll_interval.is_zero()
            || self.worker.sweep_interval.is_zero()
            || self.worker.renew.is_zero()
        {
            return invalid("worker", "needs intervals above zero");
        }
        self.server.check()?;
        if self.database.pool < 2 {
            return invalid("database.pool", "must be at least 2");
        }
        if self.execution.lease_losses_max == 0 {
            return invalid("execution.lease_losses_max", "must be at least 1");
        }
        if self.artifacts.folder.as_os_str().is_empty() {
            return invalid("artifacts.folder", "must not be empty");
        }
        if self.execution.question_ttl.is_zero() {
            return invalid("execution.question_ttl", "must be above zero");
        }
        if !self.server.cors_origins.iter().all(|origin| is_origin(origin)) {
            return invalid(
                "server.cors_origins",
                "must hold exact origins, as browsers write them: `https://host` or `https://host:port`",
            );
        }
        self.auth.check()?;
        let thirty_days = Duration::from_secs(30 * 24 * 60 * 60);
        if self.idempotency.ttl.is_zero() || self.idempotency.ttl > thirty_days {
            return invalid("idempotency.ttl", "must be above zero and at most 30 days");
        }
        if self.retention.days == Some(0) {
            return invalid("retention.days", "must be at least 1");
        }
        Policies::new(self)?;
        Ok(())
    }
}

/// Whether a browser could send this as its `Origin`. `*` and `null` are none: who they are is not known.
fn is_origin(text: &str) -> bool {
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https");
    Url::parse(text).is_ok_and(|url| is_web(&url) && url.origin().ascii_serialization() == text)
}

#[cfg(test)]
mod tests;
