//! `agentctl dev`: everything on this machine, until Ctrl-C.

mod children;
mod database;
mod lock;
pub(crate) mod provider;

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::config::{Auth, AuthKey, AuthMode, Config};
use tokio_util::sync::CancellationToken;

use crate::args::{Dev, Global};
use crate::commands::dev::children::{Child, ChildOptions};
use crate::commands::dev::database::Database;
use crate::commands::dev::lock::Lock;
use crate::commands::dev::provider::{ASSISTANT, Found};
use crate::connection::{self, DEV_FILE, artifacts_folder};
use crate::exit::Failure;
use crate::hints::{program, quoted};
use crate::note::note;
use crate::ready::{self, DevPids, DevReady};
use crate::signals;

/// How often the children are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Wait before a child that died is started again: one that dies at once must not become a hot loop.
const RESTART_WAIT: Duration = Duration::from_secs(1);

/// The agent that shows what a run looks like.
const DEMO: &str = "demo";

/// The folder of agent files that is used where it exists and none is named.
const AGENTS_FOLDER: &str = "agents";

pub(crate) async fn run(global: &Global, args: Dev) -> Result<(), Failure> {
    let shutdown = signals::shutdown().map_err(|error| Failure::unavailable("signals", &error))?;
    let config = Config::load(global.config.as_deref())?;
    let found = Found::by(&config, |name| std::env::var(name).ok());
    let mut dev = Running::start(global, &config, found.as_ref(), &args, &shutdown).await?;
    dev.write_ready()?;
    announce(global, &config, found.as_ref(), &dev.ready().url).await;
    dev.supervise(&args, &shutdown).await;
    note!("stopping");
    dev.stop().await;
    Ok(())
}

/// What runs. Dropped in order: children before the database, the lock last.
struct Running {
    api: Child,
    workers: Vec<Child>,
    database: Database,
    data_dir: PathBuf,
    ready_file: Option<PathBuf>,
    found: Option<Found>,
    _lock: Lock,
}

impl Running {
    async fn start(
        global: &Global,
        config: &Config,
        found: Option<&Found>,
        args: &Dev,
        shutdown: &CancellationToken,
    ) -> Result<Self, Failure> {
        let data_dir = prepare(&global.data_dir)?;
        let lock = Lock::take(&data_dir)?;
        let database = Database::start(config, &data_dir, args.no_download).await?;
        let options = ChildOptions {
            config: global.config.clone(),
            agents: agents_folder(args, config),
            database_url: database.url.clone(),
            run_dir: data_dir.join("run"),
            artifacts_folder: artifacts_folder(config, &data_dir),
            effects_file: config.demo.effects_file.clone().unwrap_or_else(|| data_dir.join("demo-effects.log")),
            found: found.cloned(),
        };
        // The API first: what it refuses the workers would refuse, too, and say once more.
        let mut api = Child::api(&options, args.listen.unwrap_or(config.server.listen))?;
        api.wait_until_ready(shutdown).await?;
        let mut workers = (0..args.workers).map(|number| Child::worker(&options, number)).collect::<Result<Vec<_>, _>>()?;
        for worker in &mut workers {
            worker.wait_until_ready(shutdown).await?;
        }
        Ok(Self { api, workers, database, data_dir, ready_file: args.ready_file.clone(), found: found.cloned(), _lock: lock })
    }

    fn ready(&self) -> DevReady {
        DevReady {
            url: self.api.url().unwrap_or_default(),
            database_url: self.database.url.clone(),
            metrics_url: None,
            pids: DevPids { api: self.api.pid(), workers: self.workers.iter().map(Child::pid).collect() },
            assistant: self.found.clone(),
        }
    }

    /// Writes where everything is, for the other commands and for scripts.
    fn write_ready(&self) -> Result<(), Failure> {
        let ready = self.ready();
        let failed = |error| Failure::unavailable("the ready file", &error);
        ready::write(&self.data_dir.join(DEV_FILE), &ready).map_err(failed)?;
        self.ready_file.as_ref().map_or(Ok(()), |file| ready::write(file, &ready).map_err(failed))
    }

    /// Starts again what dies, until it is time to stop.
    async fn supervise(&mut self, args: &Dev, shutdown: &CancellationToken) {
        while !shutdown.is_cancelled() {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
            let mut changed = self.database.revive();
            for child in std::iter::once(&mut self.api).chain(&mut self.workers) {
                if args.no_restart {
                    child.notice_death();
                } else {
                    changed |= child.revive(RESTART_WAIT);
                }
            }
            if changed && let Err(failure) = self.write_ready() {
                failure.report(); // said; what runs goes on
            }
        }
    }

    async fn stop(mut self) {
        let _ = std::fs::remove_file(self.data_dir.join(DEV_FILE));
        for child in std::iter::once(&mut self.api).chain(&mut self.workers) {
            child.terminate();
        }
        for child in std::iter::once(&mut self.api).chain(&mut self.workers) {
            child.wait_or_kill().await;
        }
        self.database.stop();
    }
}

/// The folder that children are told. None: they read it in the configuration, or there is none.
fn agents_folder(args: &Dev, config: &Config) -> Option<PathBuf> {
    let found = || Some(PathBuf::from(AGENTS_FOLDER)).filter(|folder| config.agents.folder.is_none() && folder.is_dir());
    args.agents.clone().or_else(found)
}

/// What a person does next. Commands are for a terminal that stands where this one does.
async fn announce(global: &Global, config: &Config, found: Option<&Found>, url: &str) {
    let (program, auth) = (program(global), &config.auth);
    let agent = agent_to_try(global, auth, url).await;
    println!("Baton runs at {url}\n");
    println!("In another terminal:\n");
    let authorization = match auth.mode {
        AuthMode::Dev => "",
        AuthMode::Jwt => {
            println!("  export BATON_TOKEN={}\n", mint(global, auth));
            " -H \"Authorization: Bearer $BATON_TOKEN\""
        }
    };
    match agent.as_str() {
        DEMO => println!("  {program} run \"Calculate 12 times 9\"\n"),
        agent => println!("  {program} run --agent {agent} \"How much is 12 times 9?\"\n"),
    }
    if let Some(found) = found {
        let passed_over = Found::passed_over(config, |name| std::env::var(name).ok());
        let others = if passed_over.is_empty() { String::new() } else { format!("; not asked: {}", passed_over.join(", ")) };
        println!("or, answered by a real model ({}{others}):\n", found.label());
        println!("  {program} run --agent {ASSISTANT} \"How much is 12 times 9?\"\n");
    }
    println!("or with curl:\n");
    println!(
        "  curl -s {url}/v1/sessions{authorization} -H 'Content-Type: application/json' -d '{{\"agent_id\":\"{agent}\"}}'\n"
    );
    println!("Ctrl-C stops all of it.");
}

/// An agent that is there: the demo, unless it is not. Where that cannot be asked, the demo too.
async fn agent_to_try(global: &Global, auth: &Auth, url: &str) -> String {
    let asked = async {
        if auth.mode == AuthMode::Jwt {
            return None;
        }
        let client = connection::client(global, Some(url), None).ok()?;
        let agents = client.agents().await.ok()?;
        let is_there = agents.iter().any(|agent| agent == DEMO);
        if is_there { None } else { agents.into_iter().find(|agent| agent != ASSISTANT) }
    };
    asked.await.unwrap_or_else(|| DEMO.into())
}

/// A command that prints a token which this `dev` accepts, where there is a secret to sign it with.
fn mint(global: &Global, auth: &Auth) -> String {
    let secret = |key: &AuthKey| key.secret_file.as_ref().map(|file| (file.clone(), key.kid.clone()));
    let Some((file, kid)) = auth.keys.iter().find_map(secret) else {
        return "…      (a token of your issuer; `agentctl token mint --help` signs one with a private key)".into();
    };
    let flag = |name: &str, value: Option<&str>| value.map(|value| format!(" --{name} {}", quoted(value))).unwrap_or_default();
    let named = match global.config {
        Some(_) => String::new(), // says it
        None => flag("issuer", auth.issuer.as_deref()) + &flag("audience", auth.audience.as_deref()),
    };
    format!(
        "$({} token mint --secret-file {}{}{named} --tenant acme --principal ada --role member)",
        program(global),
        quoted(&file.to_string_lossy()),
        flag("kid", kid.as_deref()),
    )
}

/// The folder exists, and its path is absolute: children may stand elsewhere.
fn prepare(data_dir: &Path) -> Result<PathBuf, Failure> {
    let run_dir = data_dir.join("run");
    std::fs::create_dir_all(&run_dir)
        .map_err(|error| Failure::unavailable(&format!("the folder {}", run_dir.display()), &error))?;
    data_dir.canonicalize().map_err(|error| Failure::unavailable("the data folder", &error))
}
