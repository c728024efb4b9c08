//! The processes of `dev`: this binary again, as API and as worker. Each dies with us, however we end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child as Process, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_util::sync::CancellationToken;

use crate::commands::dev::provider::Found;
use crate::exit::{Exit, Failure};
use crate::note::note;
use crate::ready::{self, ProcessReady};

/// Longest wait for a child to answer.
const READY_WAIT: Duration = Duration::from_secs(30);

/// Longest wait for a child to stop after SIGTERM: its drain, and a little more.
const STOP_WAIT: Duration = Duration::from_secs(12);

const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// How long steps may take when `dev` stops: a person waits.
const DRAIN: &str = "5s";

/// What all children are given.
#[derive(Debug, Clone)]
pub(super) struct ChildOptions {
    pub(super) config: Option<PathBuf>,
    pub(super) agents: Option<PathBuf>,
    pub(super) database_url: String,
    /// Where children say that they are ready.
    pub(super) run_dir: PathBuf,
    /// One folder for the API and all workers.
    pub(super) artifacts_folder: PathBuf,
    /// What `demo.external_write` appends to.
    pub(super) effects_file: PathBuf,
    /// Whom the assistant asks.
    pub(super) found: Option<Found>,
}

#[derive(Debug)]
pub(super) struct Child {
    name: String,
    options: ChildOptions,
    role: Role,
    process: Process,
    died: Option<Death>,
    /// Since its last start.
    answers: bool,
    url: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Role {
    Api { listen: SocketAddr },
    Worker,
}

#[derive(Debug)]
struct Death {
    at: Instant,
}

impl Child {
    pub(super) fn api(options: &ChildOptions, listen: SocketAddr) -> Result<Self, Failure> {
        Self::start("api".into(), options, Role::Api { listen })
    }

    pub(super) fn worker(options: &ChildOptions, number: u16) -> Result<Self, Failure> {
        Self::start(format!("worker-{number}"), options, Role::Worker)
    }

    fn start(name: String, options: &ChildOptions, role: Role) -> Result<Self, Failure> {
        let process = spawn(&name, options, role)?;
        Ok(Self { name, options: options.clone(), role, process, died: None, answers: false, url: None })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Of the API, once it is ready.
    pub(super) fn url(&self) -> Option<String> {
        self.url.clone()
    }

    pub(super) async fn wait_until_ready(&mut self, shutdown: &CancellationToken) -> Result<(), Failure> {
        let ready = async {
            loop {
                if let Some(ready) = self.said_ready() {
                    return Ok(ready);
                }
                if let Ok(Some(status)) = self.process.try_wait() {
                    return Err(Failure::new(
                        why(status),
                        format!("the {} did not start ({status}); what it said is above", self.name),
                    ));
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        let ready = tokio::select! {
            ready = tokio::time::timeout(READY_WAIT, ready) => ready,
            () = shutdown.cancelled() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        let ready = ready.map_err(|_| Failure::new(Exit::Unavailable, "a child did not get ready in time"))??;
        if let (Role::Api { listen }, Some(url)) = (&mut self.role, &ready.url) {
            // A port that the system chose stays, over restarts: clients resume at the address that they know.
            if let Some(address) = url.strip_prefix("http://").and_then(|address| address.parse().ok()) {
                *listen = address;
            }
            self.url = Some(url.clone());
        }
        self.answers = true;
        Ok(())
    }

    /// Says once that the child has died.
    pub(super) fn notice_death(&mut self) {
        if self.died.is_none()
            && let Ok(Some(status)) = self.process.try_wait()
        {
            self.note_death(status);
        }
    }

    /// Starts the child again, a moment after it died. True: it has just begun to answer.
    pub(super) fn revive(&mut self, wait: Duration) -> bool {
        self.notice_death();
        match &self.died {
            None => self.notice_answer(),
            Some(death) if death.at.elapsed() < wait => false,
            Some(_) => {
                self.start_again();
                false
            }
        }
    }

    fn start_again(&mut self) {
        match spawn(&self.name, &self.options, self.role) {
            Ok(process) => {
                self.process = process;
                self.died = None;
                note!("the {} was started again", self.name);
            }
            Err(failure) => {
                failure.report();
                self.died = Some(Death { at: now() });
            }
        }
    }

    /// True once for each start.
    fn notice_answer(&mut self) -> bool {
        if !self.answers && self.said_ready().is_some() {
            self.answers = true;
            return true;
        }
        false
    }

    /// What the child says of itself, once it answers; the file may be an earlier one's.
    fn said_ready(&self) -> Option<ProcessReady> {
        ready::read::<ProcessReady>(&ready_file(&self.name, &self.options)).filter(|ready| ready.pid == self.process.id())
    }

    pub(super) fn terminate(&self) {
        if self.died.is_none() {
            signal(&self.process, Signal::SIGTERM);
        }
    }

    pub(super) async fn wait_or_kill(&mut self) {
        let deadline = now() + STOP_WAIT;
        while matches!(self.process.try_wait(), Ok(None)) {
            if now() > deadline {
                note!("the {} does not stop; killing it", self.name);
                signal(&self.process, Signal::SIGKILL);
                let _ = self.process.wait();
                return;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    fn note_death(&mut self, status: ExitStatus) {
        note!("the {} ended ({status})", self.name);
        self.died = Some(Death { at: now() });
        self.answers = false;
    }
}

impl Drop for Child {
    /// On the way out through an error: nobody waits for a child that was never announced.
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            signal(&self.process, Signal::SIGKILL);
            let _ = self.process.wait();
        }
    }
}

fn spawn(name: &str, options: &ChildOptions, role: Role) -> Result<Process, Failure> {
    let failed = |error: std::io::Error| Failure::unavailable(&format!("starting the {name}"), &error);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    match role {
        Role::Api { listen } => command.arg("api").arg("--listen").arg(listen.to_string()),
        Role::Worker => command.arg("worker"),
    };
    if let Some(config) = &options.config {
        command.arg("--config").arg(config);
    }
    if let Some(agents) = &options.agents {
        command.arg("--agents").arg(agents);
    }
    command.arg("--ready-file").arg(ready_file(name, options));
    command.env("DATABASE_URL", &options.database_url);
    command.env("BATON_ARTIFACTS__FOLDER", &options.artifacts_folder);
    command.env("BATON_DEMO__EFFECTS_FILE", &options.effects_file);
    command.envs(options.found.iter().flat_map(Found::variables));
    // A changed file is a new version while one tries things out.
    command.env("BATON_AGENTS__CHANGED_FILE", "new_version");
    if std::env::var_os("BATON_WORKER__DRAIN").is_none() {
        command.env("BATON_WORKER__DRAIN", DRAIN);
    }
    baton_devdb::child::spawn(command, Signal::SIGKILL, None).map_err(failed)
}

/// Why a child did not start: settings that it refuses are as if they were ours.
fn why(status: ExitStatus) -> Exit {
    if status.code() == Some(i32::from(Exit::Usage as u8)) { Exit::Usage } else { Exit::Unavailable }
}

fn ready_file(name: &str, options: &ChildOptions) -> PathBuf {
    options.run_dir.join(format!("{name}.json"))
}

fn signal(process: &Process, signal: Signal) {
    if let Ok(pid) = i32::try_from(process.id()) {
        let _ = kill(Pid::from_raw(pid), signal); // one that is gone needs none
    }
}

#[expect(clippy::disallowed_methods, reason = "the supervisor measures waits of its own, which no test drives")]
fn now() -> Instant {
    Instant::now()
}
