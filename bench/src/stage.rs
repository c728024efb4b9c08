//! The database and the processes that everything is measured on.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use baton_devdb::{Cluster, Options, child, databases};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use crate::cpu::{self, Used};

/// A release build on a machine that does something else besides.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

const READY_WAIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// No checkpoint begins inside a measurement: whether one does would be chance. There is one before each round.
const NO_CHECKPOINT: [&str; 3] =
    ["ALTER SYSTEM SET max_wal_size = '32GB'", "ALTER SYSTEM SET checkpoint_timeout = '1h'", "SELECT pg_reload_conf()"];

/// A fresh durable cluster with a migrated database, and the product's API on it. No worker.
#[derive(Debug)]
pub(crate) struct Stage {
    api: Api,
    pub(crate) cluster: Cluster,
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
    data_dir: PathBuf,
}

/// What the figures depend on.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Facts {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) postgres: String,
    pub(crate) began: String,
    pub(crate) load_average_before: f64,
}

impl Stage {
    pub(crate) async fn set_up() -> Result<Self> {
        let folder = folder()?;
        let data_dir = folder.join("pg");
        // Of a run that was killed.
        Cluster::remove(&data_dir)?;
        let cluster = Cluster::start(&Options::new(&data_dir))?;
        let url = databases::create_if_missing(&cluster, "baton").await?;
        let mut session = PgConnection::connect(&url).await?;
        for statement in NO_CHECKPOINT {
            sqlx::query(statement).execute(&mut session).await?;
        }
        session.close().await?;
        migrate(&url)?;
        let api = Api::start(&url, &folder).await?;
        Ok(Self { api, cluster, url, folder, data_dir })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.api.address
    }

    pub(crate) fn cpu_used(&self) -> Result<Used> {
        Used::so_far(self.api.process.id(), self.cluster.pid())
    }

    /// The machine's facts; an error where the database is not as durable as the figures claim.
    pub(crate) async fn facts(&self) -> Result<Facts> {
        let mut session = PgConnection::connect(&self.url).await?;
        let (postgres, fsync, synchronous_commit, began): (String, String, String, String) = sqlx::query_as(
            "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), now()::timestamptz(0)::text",
        )
        .fetch_one(&mut session)
        .await?;
        session.close().await?;
        ensure!((fsync.as_str(), synchronous_commit.as_str()) == ("on", "on"), "the database is not durable");
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
        Ok(Facts {
            cpu: model.map_or("unknown", |(_, name)| name).to_owned(),
            cores: thread::available_parallelism()?.get(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            postgres,
            began,
            load_average_before: cpu::load_average()?,
        })
    }

    /// Ends what was started, and removes the data.
    pub(crate) async fn tear_down(self) -> Result<()> {
        let Self { api, cluster, data_dir, .. } = self;
        drop(api);
        drop(cluster);
        Ok(Cluster::remove(&data_dir)?)
    }
}

/// `target/bench`, beside the folder of this executable.
pub(crate) fn folder() -> Result<PathBuf> {
    let target = bindir()?.parent().map(|target| target.join("bench")).context("this executable is not in a target folder")?;
    fs::create_dir_all(&target).with_context(|| format!("creating {}", target.display()))?;
    Ok(target)
}

/// Brings the product's release binary up to date where cargo runs us; else it must be there.
pub(crate) async fn build_product() -> Result<()> {
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = tokio::process::Command::new(cargo);
        build.args(["build", "--release", "--package", "agentctl"]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let status =
            tokio::time::timeout(BUILD_LIMIT, build.kill_on_drop(true).status()).await.context("building agentctl")??;
        ensure!(status.success(), "agentctl does not build");
    }
    let program = program()?;
    ensure!(program.is_file(), "{} is missing: cargo build --release --package agentctl", program.display());
    Ok(())
}

fn bindir() -> Result<PathBuf> {
    let ourselves = std::env::current_exe().context("where is this executable?")?;
    ourselves.parent().map(Path::to_path_buf).context("this executable is in no folder")
}

fn program() -> Result<PathBuf> {
    Ok(bindir()?.join("agentctl"))
}

/// The product with its defaults: what the user's environment says is not meant for it.
fn agentctl(url: &str) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.env_clear().env("DATABASE_URL", url).stdin(Stdio::null());
    Ok(command)
}

fn migrate(url: &str) -> Result<()> {
    let output = agentctl(url)?.arg("migrate").output().context("running agentctl migrate")?;
    ensure!(output.status.success(), "agentctl migrate: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// `agentctl api`. Killed when dropped: a run that is stored needs no goodbye.
#[derive(Debug)]
struct Api {
    process: Child,
    address: SocketAddr,
}

/// What the product writes once it answers.
#[derive(Deserialize)]
struct Ready {
    pid: u32,
    url: String,
}

impl Api {
    async fn start(url: &str, folder: &Path) -> Result<Self> {
        let (log, ready) = (folder.join("api.log"), folder.join("api.json"));
        let mut command = agentctl(url)?;
        command.args(["api", "--listen", "127.0.0.1:0", "--ready-file"]).arg(&ready).stdout(Stdio::null());
        command.stderr(File::create(&log).with_context(|| format!("creating {}", log.display()))?);
        let process = child::spawn(command, Signal::SIGKILL, None).context("starting agentctl api")?;
        let mut api = Self { process, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let deadline = Instant::now() + READY_WAIT;
        while Instant::now() < deadline && api.process.try_wait()?.is_none() {
            // A file that a run before has left has another pid.
            let said = fs::read(&ready).ok().and_then(|text| serde_json::from_slice::<Ready>(&text).ok());
            if let Some(said) = said.filter(|said| said.pid == api.process.id()) {
                api.address =
                    said.url.trim_start_matches("http://").parse().with_context(|| format!("the API is at {}", said.url))?;
                return Ok(api);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        bail!("agentctl api does not answer; its log is {}", log.display())
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
