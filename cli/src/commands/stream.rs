//! `agentctl stream`: what a stream promises, put to the test.

use std::io::{IsTerminal, stderr};

use crate::args::{Global, StreamVerify};
use crate::connection::client;
use crate::exit::{Exit, Failure};
use crate::render;
use crate::verify::{Waits, verify};

pub(crate) async fn run(global: &Global, args: StreamVerify) -> Result<(), Failure> {
    let client = client(global, args.api.url.as_deref(), args.api.token)?;
    let is_watched = !global.json && stderr().is_terminal();
    let waits = if is_watched { Waits::ForPeople } else { Waits::ForNobody };
    let report = tokio::select! {
        report = verify(&client, args.run, args.cuts, waits) => report?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new(Exit::Interrupted, "the run has not ended: nothing is proved")),
    };
    if global.json {
        render::json(&report)?;
    } else {
        render::line(&report.lines())?;
    }
    report.verdict()
}
