//! What the command line takes.

mod token;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use baton_core::approvals::ApprovalStatus;
use baton_core::runs::RunStatus;
use clap::{Arg, ArgAction, Args as ClapArgs, Parser, Subcommand};
use reqwest::Url;
use secrecy::SecretString;
use uuid::Uuid;

use self::token::secret;
pub(crate) use self::token::{TokenCommand, TokenMint};

/// Where `dev` keeps what it keeps, unless it is told otherwise.
pub(crate) const DATA_DIR: &str = ".baton";

/// The caller of dev mode.
pub(crate) const TENANT: &str = "dev";
pub(crate) const PRINCIPAL: &str = "dev";

/// How commands end; the numbers are those of [`crate::exit::Exit`].
const EXIT_CODES: &str = "Exit codes: 0 done, 1 the run failed, 2 wrong usage, 3 not found, 4 refused, 5 conflict, 6 unavailable, \
    7 the run waits for a person and nobody is at a terminal, 130 interrupted.";

/// Durable runs for AI agents.
#[derive(Debug, Parser)]
#[command(name = "agentctl", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Global {
    /// Configuration file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where `dev` keeps its database and says where it runs
    #[arg(long, global = true, value_name = "FOLDER", default_value = DATA_DIR)]
    pub(crate) data_dir: PathBuf,
    /// Print exactly the API's views, where a command shows any
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything on this machine: database, API, worker
    #[command(arg = no_views())]
    Dev(Dev),
    /// Serve the HTTP API
    #[command(arg = no_views())]
    Api(Api),
    /// Execute runs
    #[command(arg = no_views())]
    Worker(Worker),
    /// Bring the database's schema up to this version
    #[command(arg = no_views())]
    Migrate(Migrate),
    /// Look whether everything is there that Baton needs, and say what to do
    Doctor,
    /// Print the OpenAPI document of the HTTP API
    #[command(arg = no_views())]
    Openapi,
    /// Send a message and follow the run to its end
    ///
    /// At a terminal it asks for what the run waits for. Without one, or with --json, it says what that is and how to decide, and
    /// ends: the run goes on when somebody has decided.
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Get what runs have produced
    #[command(subcommand)]
    Artifacts(ArtifactsCommand),
    /// Show how much waits, for how long, and who is there to take it
    Queue(Queue),
    /// Say why a run is not further
    Why(RunsGet),
    /// Look at sessions, close and delete them
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Look at runs, and stop them
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Look at what runs ask for, and decide
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Prove what streams of events promise
    #[command(subcommand)]
    Stream(StreamCommand),
    /// Make tokens for development
    #[command(subcommand)]
    Token(TokenCommand),
}

impl Command {
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Dev(_) | Self::Api(_) | Self::Worker(_))
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Dev {
    /// Address of the API; port 0 picks one [default: `server.listen`, which is 127.0.0.1:7420 unless it is set]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Folder of agent files [default: `agents.folder`, else `agents` where it exists, else the built-in demo agent]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) agents: Option<PathBuf>,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,
    /// Write where everything is to this file, once everything answers
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
    /// Leave a child that dies dead
    #[arg(long)]
    pub(crate) no_restart: bool,
    /// Never fetch a Postgres
    #[arg(long)]
    pub(crate) no_download: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Api {
    /// Address to listen on; port 0 picks one [default: `server.listen`, which is 127.0.0.1:7420 unless it is set]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Folder of agent files
    #[arg(long, value_name = "FOLDER")]
    pub(crate) agents: Option<PathBuf>,
    /// Write the URL to this file, once it answers
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Worker {
    /// Folder of agent files
    #[arg(long, value_name = "FOLDER")]
    pub(crate) agents: Option<PathBuf>,
    /// Write the process id to this file, once it is registered
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Migrate {
    /// Only say what would be applied
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// What to say to the agent
    pub(crate) message: String,
    /// The agent of a new session
    #[arg(long, default_value = "demo", conflicts_with = "session")]
    pub(crate) agent: String,
    /// Go on with this session
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) session: Option<Uuid>,
    /// Only store the run, and print its id
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) api: ApiAccess,
}

/// The way to the API, of a command that is one of its clients.
#[derive(Debug, ClapArgs)]
pub(crate) struct ApiAccess {
    /// The API [default: the running `dev`]
    #[arg(long, env = "BATON_URL", value_parser = url)]
    pub(crate) url: Option<String>,
    /// What the API knows us by, where it asks
    #[arg(long, env = "BATON_TOKEN", hide_env_values = true, value_parser = secret)]
    pub(crate) token: Option<SecretString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Sessions, newest first
    List(SessionsList),
    /// One session
    Get(SessionsGet),
    /// Take no more messages
    Close(SessionsGet),
    /// Delete a session with everything in it
    Delete(SessionsGet),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SessionsList {
    #[command(flatten)]
    pub(crate) caller: Caller,
    /// Rows of a page, 200 at most
    #[arg(long)]
    pub(crate) limit: Option<i64>,
    /// `next_cursor` of the page before
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SessionsGet {
    /// The session's id
    #[arg(value_parser = id)]
    pub(crate) session: Uuid,
    #[command(flatten)]
    pub(crate) caller: Caller,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Runs, newest first
    List(RunsList),
    /// One run
    Get(RunsGet),
    /// The events of a run
    Events(RunsEvents),
    /// Ask a run to stop
    Cancel(RunsGet),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsCommand {
    /// The bytes of an artifact, to stdout or to a file
    Get(ArtifactsGet),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ArtifactsGet {
    /// The artifact's id
    #[arg(value_parser = id)]
    pub(crate) artifact: Uuid,
    #[command(flatten)]
    pub(crate) caller: Caller,
    /// Write to this file instead, which must not exist
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Queue {
    #[command(flatten)]
    pub(crate) caller: Caller,
    /// Show it again every second
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Who asks, of a database that this command reaches itself.
#[derive(Debug, ClapArgs)]
pub(crate) struct Caller {
    /// Whose data. This command asks the database itself; it knows no --url, no BATON_URL and no token
    #[arg(long, default_value = TENANT)]
    pub(crate) tenant: String,
    /// In whose name. Everything of the tenant is shown and may be decided; cancel, close and delete take what is this principal's
    #[arg(long, default_value = PRINCIPAL)]
    pub(crate) principal: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunsList {
    #[command(flatten)]
    pub(crate) caller: Caller,
    /// Of this session
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) session: Option<Uuid>,
    /// In this status; may be given several times
    #[arg(long, value_parser = status::<RunStatus>)]
    pub(crate) status: Vec<RunStatus>,
    /// Rows of a page, 200 at most
    #[arg(long)]
    pub(crate) limit: Option<i64>,
    /// `next_cursor` of the page before
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunsGet {
    /// The run's id
    #[arg(value_parser = id)]
    pub(crate) run: Uuid,
    #[command(flatten)]
    pub(crate) caller: Caller,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunsEvents {
    /// The run's id
    #[arg(value_parser = id)]
    pub(crate) run: Uuid,
    #[command(flatten)]
    pub(crate) caller: Caller,
    /// Go on to the run's end
    #[arg(long)]
    pub(crate) follow: bool,
    /// Only events after this sequence
    #[arg(long, value_name = "SEQUENCE", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) after: Option<i64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    /// Follow a run to its end, cut off again and again, and compare what came with what is stored
    Verify(StreamVerify),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StreamVerify {
    /// The run's id
    #[arg(value_parser = id)]
    pub(crate) run: Uuid,
    /// Connections to cut at random; a run that is shorter is followed again from its start
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) cuts: u32,
    #[command(flatten)]
    pub(crate) api: ApiAccess,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Approvals, newest first
    List(ApprovalsList),
    /// One approval, with the exact arguments of its call
    Get(ApprovalsGet),
    /// Let the call happen, once
    Approve(ApprovalsResolve),
    /// Refuse the call; the run goes on without it
    Deny(ApprovalsResolve),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ApprovalsList {
    #[command(flatten)]
    pub(crate) caller: Caller,
    /// In this status; may be given several times
    #[arg(long, value_parser = status::<ApprovalStatus>)]
    pub(crate) status: Vec<ApprovalStatus>,
    /// Of this run
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) run: Option<Uuid>,
    /// Of this session
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) session: Option<Uuid>,
    /// Rows of a page, 200 at most
    #[arg(long)]
    pub(crate) limit: Option<i64>,
    /// `next_cursor` of the page before
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ApprovalsGet {
    /// The approval's id
    #[arg(value_parser = id)]
    pub(crate) approval: Uuid,
    #[command(flatten)]
    pub(crate) caller: Caller,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ApprovalsResolve {
    /// The approval's id
    #[arg(value_parser = id)]
    pub(crate) approval: Uuid,
    /// Why, in at most 1,000 characters
    #[arg(long)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) caller: Caller,
}

/// The flag of all commands, hidden at one that prints no views: it would promise something.
fn no_views() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).global(true).hide(true)
}

/// What cannot be the address of an API is refused at once, instead of being tried for a while.
fn url(text: &str) -> Result<String, &'static str> {
    let is_base = |url: &Url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none() && url.fragment().is_none()
    };
    let is_usable = Url::parse(text).is_ok_and(|url| is_base(&url));
    is_usable.then(|| text.trim_end_matches('/').to_owned()).ok_or("an API is at `http://HOST:PORT` or `https://HOST`")
}

/// However it is written: people write it small.
fn status<S: FromStr>(text: &str) -> Result<S, S::Err> {
    text.to_uppercase().parse()
}

fn id(text: &str) -> Result<Uuid, &'static str> {
    text.parse().map_err(|_| "an id is a UUID, as the lists show it")
}

#[cfg(test)]
mod tests;
