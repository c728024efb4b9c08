//! What Postgres itself can do on this machine, by pgbench.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use baton_devdb::{Cluster, child};
use nix::sys::signal::Signal;
use tokio::process::Command;

use crate::cpu::Cast;
use crate::report::Sample;
use crate::samples::{Completion, Rate, Window};

/// The sample of F: the median of a commit that writes nothing but its own record and a message, with the round trip.
pub(crate) const COMMIT: &str = "F: pgbench, an empty commit, 1 client";

/// The name of the files that pgbench writes one line into for each transaction: the process id follows.
const LOG_PREFIX: &str = "pgbench_log";

/// Beyond the measured time: connections made, sessions ended.
const STOP_WAIT: Duration = Duration::from_secs(20);

const TURNS_LIMIT: Duration = Duration::from_secs(300);

/// When a script has been run enough.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent {
    For(Window),
    /// By each client.
    Turns(u64),
}

/// `pgbench` of the cluster's own version.
#[derive(Debug)]
pub(crate) struct Pgbench {
    program: PathBuf,
    url: String,
    folder: PathBuf,
}

/// What a run of pgbench did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) completions: Vec<Completion>,
    /// Transactions that the busiest client began, at most.
    pub(crate) turns_max: u64,
}

impl Pgbench {
    pub(crate) fn find(cluster: &Cluster, url: &str, folder: &Path) -> Result<Self> {
        let program = cluster.binaries().program("pgbench");
        ensure!(
            program.is_file(),
            "{} is missing: it is in the package postgresql-{} of Debian and Ubuntu, postgresql-contrib of Fedora",
            program.display(),
            cluster.binaries().major(),
        );
        let folder = folder.join("pgbench");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { program, url: url.to_owned(), folder })
    }

    /// Runs a script. The script is prepared once for each client, as sqlx does with a statement.
    pub(crate) async fn run(&self, script: &str, clients: u16, extent: Extent, variables: &[(&str, String)]) -> Result<Ran> {
        self.remove_logs()?;
        let file = self.folder.join("script.sql");
        fs::write(&file, script).with_context(|| format!("writing {}", file.display()))?;
        let mut command = Command::new(&self.program);
        // One thread, as our generator has. The window drops what the connections cost.
        command.args(["--no-vacuum", "--protocol=prepared", "--jobs=1", "--log"]);
        command.arg(format!("--log-prefix={LOG_PREFIX}")).arg(format!("--client={clients}"));
        let limit = match extent {
            Extent::For(window) => {
                command.arg(format!("--time={}", window.total().as_secs()));
                window.total() + STOP_WAIT
            }
            Extent::Turns(turns) => {
                command.arg(format!("--transactions={turns}"));
                TURNS_LIMIT
            }
        };
        command.arg("--file").arg(&file);
        for (name, value) in variables {
            command.arg(format!("--define={name}={value}"));
        }
        command.arg(&self.url).current_dir(&self.folder).env_clear().env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        child::bind(command.as_std_mut(), Signal::SIGKILL, None);
        let output = tokio::time::timeout(limit, command.output()).await.context("pgbench does not stop")?;
        let output = output.with_context(|| format!("running {}", self.program.display()))?;
        if !output.status.success() {
            bail!("pgbench ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        self.read_logs()
    }

    pub(crate) async fn commit(&self, round: u32, postmaster: u32) -> Result<Sample> {
        let window = Window { warm_up: Duration::from_secs(1), measured: Duration::from_secs(1) };
        let cast = Cast { servers: &[], workers: &[], postmaster };
        let before = cast.used()?;
        let ran = self.run(include_str!("../../sql/commit.sql"), 1, Extent::For(window), &[]).await?;
        let cpu = cast.used()?.since(before).each(ran.completions.len());
        Ok(Sample::new(round, COMMIT, Rate::of(&ran.completions, window)?.figures(), cpu))
    }

    fn logs(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.folder).with_context(|| format!("listing {}", self.folder.display()))?.flatten();
        Ok(entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(LOG_PREFIX))
            .map(|entry| entry.path())
            .collect())
    }

    fn remove_logs(&self) -> Result<()> {
        self.logs()?.iter().try_for_each(|log| fs::remove_file(log).with_context(|| format!("removing {}", log.display())))
    }

    fn read_logs(&self) -> Result<Ran> {
        let mut ran = Ran { completions: Vec::new(), turns_max: 0 };
        for log in self.logs()? {
            let text = fs::read_to_string(&log).with_context(|| format!("reading {}", log.display()))?;
            for line in text.lines() {
                let (turn, completion) = parse(line).with_context(|| format!("pgbench logged {line:?}"))?;
                ran.completions.push(completion);
                // Counted from 0 or 1, and one may have been cut off.
                ran.turns_max = ran.turns_max.max(turn + 2);
            }
        }
        // From the wall clock to the time since the first transaction began.
        let began = ran.completions.iter().map(|completion| completion.at - completion.latency).min().unwrap_or(0);
        ran.completions.iter_mut().for_each(|completion| completion.at -= began);
        Ok(ran)
    }
}

/// `client transaction latency script second microsecond`: the last two are the wall clock at the end of the transaction.
fn parse(line: &str) -> Option<(u64, Completion)> {
    let fields: Vec<u64> = line.split(' ').take(6).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [_, turn, latency, _, second, microsecond] = fields[..] else { return None };
    Some((turn, Completion { at: second * 1_000_000 + microsecond, latency }))
}
