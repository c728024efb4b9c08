//! What everything is measured on: a durable cluster of its own, and in it a fresh database for each scenario.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use baton_devdb::{Cluster, Options, databases};
use serde::Serialize;
use sqlx::{Connection, PgConnection};

use crate::cpu;
use crate::limits::pgbench::Pgbench;
use crate::product;

/// Eight workers beside the servers and workers of three databases, each with its pool and a few connections of its own.
const CONNECTIONS_MAX: u16 = 400;

/// No checkpoint begins inside a measurement: whether one does would be chance. There is one before each round.
const NO_CHECKPOINT: [&str; 3] =
    ["ALTER SYSTEM SET max_wal_size = '32GB'", "ALTER SYSTEM SET checkpoint_timeout = '1h'", "SELECT pg_reload_conf()"];

const AGENT: &str = include_str!("../agents/bench.toml");

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
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
        let agents = folder.join("agents");
        fs::create_dir_all(&agents).with_context(|| format!("creating {}", agents.display()))?;
        fs::write(agents.join("bench.toml"), AGENT).context("writing the agent")?;
        let cluster = Cluster::start(&Options { max_connections: CONNECTIONS_MAX, ..Options::new(&data_dir) })?;
        let mut session = PgConnection::connect(&cluster.url("postgres")).await?;
        for statement in NO_CHECKPOINT {
            sqlx::query(statement).execute(&mut session).await?;
        }
        session.close().await?;
        Ok(Self { cluster, folder, data_dir })
    }

    /// A fresh database with the product's schema. Its URL.
    pub(crate) async fn database(&self, name: &str) -> Result<String> {
        let url = databases::create_if_missing(&self.cluster, name).await?;
        product::migrate(&url)?;
        Ok(url)
    }

    /// Removes a database and whoever uses it.
    pub(crate) async fn drop_database(&self, name: &str) -> Result<()> {
        Ok(databases::drop_database(&self.cluster, name).await?)
    }

    pub(crate) fn pgbench(&self, url: &str) -> Result<Pgbench> {
        Pgbench::find(&self.cluster, url, &self.folder)
    }

    /// The machine's facts; an error where the database is not as durable as the figures claim.
    pub(crate) async fn facts(&self) -> Result<Facts> {
        let mut session = PgConnection::connect(&self.cluster.url("postgres")).await?;
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
    pub(crate) fn tear_down(self) -> Result<()> {
        let Self { cluster, data_dir, .. } = self;
        drop(cluster);
        Ok(Cluster::remove(&data_dir)?)
    }
}

/// A round begins with the pages of the one before on disk.
pub(crate) async fn checkpoint(session: &mut PgConnection) -> Result<()> {
    sqlx::query("CHECKPOINT").execute(session).await?;
    Ok(())
}

/// `target/bench`, beside the folder of this executable.
pub(crate) fn folder() -> Result<PathBuf> {
    let target = bindir()?.parent().map(|target| target.join("bench")).context("this executable is not in a target folder")?;
    fs::create_dir_all(&target).with_context(|| format!("creating {}", target.display()))?;
    Ok(target)
}

pub(crate) fn bindir() -> Result<PathBuf> {
    let ourselves = std::env::current_exe().context("where is this executable?")?;
    ourselves.parent().map(Path::to_path_buf).context("this executable is in no folder")
}
