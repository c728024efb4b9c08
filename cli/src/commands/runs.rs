//! `agentctl runs`: the same services that the API's handlers call.

use std::time::Duration;

use baton_core::events::{Followed, Frame, StreamError};
use baton_core::page::PageRequest;
use baton_core::runs::RunFilter;
use baton_core::{Principal, Services};
use futures::StreamExt;

use crate::args::{Global, RunsEvents, RunsGet, RunsList};
use crate::connection::services;
use crate::exit::Failure;
use crate::note::note;
use crate::render;

/// Rows read at once; `events` prints all pages.
const PAGE_ROWS: i64 = 500;

pub(crate) async fn list(global: &Global, args: RunsList) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let filter = RunFilter { session_id: args.session, statuses: args.status, ..RunFilter::default() };
    let request = PageRequest::new(args.cursor.as_deref(), args.limit)?;
    let page = services.runs.list(&principal, &filter, &request).await?;
    if global.json { render::json(&page) } else { render::runs(&page) }
}

pub(crate) async fn get(global: &Global, args: RunsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let run = services.runs.get(&principal, args.run).await?;
    if global.json { render::json(&run) } else { render::run(&run) }
}

pub(crate) async fn cancel(global: &Global, args: RunsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let before = services.runs.get(&principal, args.run).await?.status;
    let run = services.runs.cancel(&principal, args.run, Duration::ZERO).await?;
    services.flush().await;
    if before.is_terminal() {
        note!("! the run had ended ({before}): nothing was cancelled");
    }
    if global.json { render::json(&run) } else { render::run(&run) }
}

pub(crate) async fn why(global: &Global, args: RunsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let why = services.runs.why(&principal, args.run).await?;
    if global.json { render::json(&why) } else { render::why(&why) }
}

pub(crate) async fn events(global: &Global, args: RunsEvents) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    if args.follow {
        return follow(&services, &principal, &args, global.json).await;
    }
    let mut after = args.after;
    loop {
        let page = services.runs.events(&principal, args.run, after, PAGE_ROWS).await?;
        for item in &page.items {
            render::event(item.get(), global.json)?;
        }
        match page.next_cursor.and_then(|cursor| cursor.parse().ok()) {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// To the end of the run, however slow whoever reads it is.
async fn follow(services: &Services, principal: &Principal, args: &RunsEvents, as_json: bool) -> Result<(), Failure> {
    let mut after = args.after;
    loop {
        let Followed::Stream(mut stream) = services.runs.follow(principal, args.run, after).await? else { return Ok(()) };
        loop {
            match stream.next().await {
                None => return Ok(()),
                Some(Err(StreamError::Overflow)) => break,
                Some(Err(StreamError::Failed(error))) => return Err(error.into()),
                Some(Ok(frames)) => {
                    for frame in frames {
                        if let Frame::Persisted { sequence, bytes, .. } = frame {
                            render::event(&render::data_of(&bytes), as_json)?;
                            after = Some(sequence);
                        }
                    }
                }
            }
        }
    }
}
