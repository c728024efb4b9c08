//! `agentctl queue`: the same service that the API's handler calls.

use std::time::Duration;

use crate::args::{Global, Queue};
use crate::connection::services;
use crate::exit::Failure;
use crate::render;

const WATCH_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) async fn run(global: &Global, args: Queue) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    loop {
        let queue = services.queue.get(&principal).await?;
        if global.json {
            render::json(&queue)?;
        } else {
            render::queue(&queue)?;
        }
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}
