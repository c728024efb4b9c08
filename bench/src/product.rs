//! The product's processes, with its defaults but where a scenario says so.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use baton_devdb::child;
use nix::sys::signal::Signal;
use serde::Deserialize;
use tokio::time::Instant;

use crate::stage;

/// A release build on a machine that does something else besides.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

const READY_WAIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A setting by its variable, and its value.
pub(crate) type Setting<'s> = (&'s str, &'s str);

/// A process that says in a file where it is. Killed when dropped: a run that is stored needs no goodbye.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    url: Option<String>,
}

/// What a process writes once it answers.
#[derive(Deserialize)]
struct Ready {
    pid: u32,
    url: Option<String>,
}

impl Process {
    pub(crate) async fn api(url: &str, settings: &[Setting<'_>]) -> Result<Self> {
        Self::agentctl("api", &["--listen", "127.0.0.1:0"], url, settings).await
    }

    pub(crate) async fn worker(url: &str, settings: &[Setting<'_>]) -> Result<Self> {
        Self::agentctl("worker", &[], url, settings).await
    }

    /// Our own executable, as the streaming ceiling.
    pub(crate) async fn bare(frames: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("where is this executable?")?);
        command.env_clear().arg("--bare").arg(frames);
        Self::start("bare", command).await
    }

    async fn agentctl(kind: &str, arguments: &[&str], url: &str, settings: &[Setting<'_>]) -> Result<Self> {
        let folder = stage::folder()?;
        let mut command = agentctl(url)?;
        command.arg(kind).args(arguments).arg("--agents").arg(folder.join("agents"));
        command.env("BATON_ARTIFACTS__FOLDER", folder.join("artifacts")).envs(settings.iter().copied());
        Self::start(kind, command).await
    }

    async fn start(kind: &str, mut command: Command) -> Result<Self> {
        let file = |ending: &str| -> Result<PathBuf> {
            Ok(stage::folder()?.join(format!("{kind}-{:08x}.{ending}", rand::random::<u32>())))
        };
        let (log, ready) = (file("log")?, file("json")?);
        command.arg("--ready-file").arg(&ready).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).with_context(|| format!("creating {}", log.display()))?);
        let child = child::spawn(command, Signal::SIGKILL, None).with_context(|| format!("starting {kind}"))?;
        let mut process = Self { child, url: None };
        let deadline = Instant::now() + READY_WAIT;
        while Instant::now() < deadline && process.child.try_wait()?.is_none() {
            let said = fs::read(&ready).ok().and_then(|text| serde_json::from_slice::<Ready>(&text).ok());
            if let Some(said) = said.filter(|said| said.pid == process.id()) {
                process.url = said.url;
                // What a process says matters only where it does not start.
                fs::remove_file(&ready).and_then(|()| fs::remove_file(&log)).context("removing what a start leaves")?;
                return Ok(process);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        bail!("{kind} does not answer; its log is {}", log.display())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        let url = self.url.as_deref().context("this process serves nothing")?;
        url.trim_start_matches("http://").parse().with_context(|| format!("it is at {url}"))
    }

    /// `kill -9`, and until it is gone.
    pub(crate) fn kill(&mut self) {
        // An error says that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Brings the product's release binary up to date where cargo runs us; else it must be there.
pub(crate) async fn build() -> Result<()> {
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

pub(crate) fn migrate(url: &str) -> Result<()> {
    let output = agentctl(url)?.arg("migrate").stdin(Stdio::null()).output().context("running agentctl migrate")?;
    ensure!(output.status.success(), "agentctl migrate: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn program() -> Result<PathBuf> {
    Ok(stage::bindir()?.join("agentctl"))
}

/// The product with its defaults: what the user's environment says is not meant for it.
fn agentctl(url: &str) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.env_clear().env("DATABASE_URL", url);
    Ok(command)
}
