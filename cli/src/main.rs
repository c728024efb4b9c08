//! `agentctl`: the one binary of Baton.

#![forbid(unsafe_code)]

mod args;
mod client;
mod commands;
mod connection;
mod exit;
mod hints;
mod note;
mod ready;
mod render;
mod signals;
mod telemetry;
mod verify;

use baton_core::approvals::Verdict;
use clap::Parser;

use crate::args::{ApprovalsCommand, Args, ArtifactsCommand, Command, RunsCommand, SessionsCommand, StreamCommand, TokenCommand};
use crate::exit::Failure;

/// The main future runs on the main thread: children are spawned from it, and their death signal belongs to it.
#[tokio::main]
async fn main() -> std::process::ExitCode {
    let args = Args::parse();
    telemetry::start(args.command.is_server());
    match dispatch(args).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn dispatch(args: Args) -> Result<(), Failure> {
    let Args { global, command } = args;
    match command {
        Command::Dev(dev) => commands::dev::run(&global, dev).await,
        Command::Api(api) => commands::api::run(&global, api).await,
        Command::Worker(worker) => commands::worker::run(&global, worker).await,
        Command::Migrate(migrate) => commands::migrate::run(&global, migrate).await,
        Command::Doctor => commands::doctor::run(&global).await,
        Command::Openapi => commands::openapi::run(),
        Command::Run(run) => commands::run::run(&global, run).await,
        Command::Sessions(SessionsCommand::List(list)) => commands::sessions::list(&global, list).await,
        Command::Sessions(SessionsCommand::Get(get)) => commands::sessions::get(&global, get).await,
        Command::Sessions(SessionsCommand::Close(close)) => commands::sessions::close(&global, close).await,
        Command::Sessions(SessionsCommand::Delete(delete)) => commands::sessions::delete(&global, delete).await,
        Command::Artifacts(ArtifactsCommand::Get(get)) => commands::artifacts::get(&global, get).await,
        Command::Queue(queue) => commands::queue::run(&global, queue).await,
        Command::Why(why) => commands::runs::why(&global, why).await,
        Command::Runs(RunsCommand::List(list)) => commands::runs::list(&global, list).await,
        Command::Runs(RunsCommand::Get(get)) => commands::runs::get(&global, get).await,
        Command::Runs(RunsCommand::Events(events)) => commands::runs::events(&global, events).await,
        Command::Runs(RunsCommand::Cancel(cancel)) => commands::runs::cancel(&global, cancel).await,
        Command::Approvals(ApprovalsCommand::List(list)) => commands::approvals::list(&global, list).await,
        Command::Approvals(ApprovalsCommand::Get(get)) => commands::approvals::get(&global, get).await,
        Command::Approvals(ApprovalsCommand::Approve(approve)) => {
            commands::approvals::resolve(&global, approve, Verdict::ApproveOnce).await
        }
        Command::Approvals(ApprovalsCommand::Deny(deny)) => commands::approvals::resolve(&global, deny, Verdict::Deny).await,
        Command::Stream(StreamCommand::Verify(verify)) => commands::stream::run(&global, verify).await,
        Command::Token(TokenCommand::Mint(mint)) => commands::token::mint(&global, mint),
    }
}
