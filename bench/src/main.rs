//! What Baton reaches beside what this machine can do, measured in the same run. `cargo run --release -p baton-bench` is all.
//!
//! - [`scenarios`]: what is measured, one file each. [`report`]: the table and the JSON.
//! - [`stage`]: the database and the processes. [`limits`]: the physical limits. [`load`]: the clients.
//! - [`samples`]: from completions to figures. [`cpu`]: who used the machine.
//!
//! Invariants: a ratio compares two measurements of one round on one database; nothing leaves loopback; only processes that were
//! started here are ended here.

#![forbid(unsafe_code)]

mod cpu;
mod limits;
mod load;
mod report;
mod samples;
mod scenarios;
mod stage;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::report::Report;
use crate::samples::Window;
use crate::stage::Stage;

/// Around the measurements: a cluster made, sessions inserted, a cluster removed.
const OVERHEAD_MAX: Duration = Duration::from_secs(120);

/// How long and how often; the defaults end within three minutes.
#[derive(Debug, Clone, Copy, Parser)]
#[command(name = "baton-bench", version)]
struct Plan {
    /// Seconds of each measurement, after one of warm-up
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Repetitions of everything; ratios are taken within one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

impl Plan {
    fn window(self) -> Window {
        Window { warm_up: Duration::from_secs(1), measured: Duration::from_secs(self.seconds.into()) }
    }
}

// The main future of a runtime with one thread: children are bound to the thread that spawns them, and the load generator takes
// no more than one core from what it measures.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        bail!("a build without optimization measures nothing: cargo run --release -p baton-bench");
    }
    let plan = Plan::parse();
    stage::build_product().await?;
    let limit = plan.window().total() * scenarios::SEGMENTS_PER_ROUND * plan.rounds + OVERHEAD_MAX;
    let report = tokio::time::timeout(limit, run(plan))
        .await
        .with_context(|| format!("the bench did not end within {} s", limit.as_secs()))??;
    print!("{}", report.markdown());
    report.write(&stage::folder()?.join("submit.json"))
}

async fn run(plan: Plan) -> Result<Report> {
    let mut stage = Stage::set_up().await?;
    let facts = stage.facts().await?;
    let outcome = scenarios::submit::run(&mut stage, plan).await?;
    stage.tear_down().await?;
    Ok(Report { facts, load_average_after: cpu::load_average()?, plan: (plan.rounds, plan.seconds), outcome })
}
