//! What Baton reaches beside what this machine can do, measured in the same run. `cargo run --release -p baton-bench` is all.
//!
//! - [`scenarios`]: what is measured, one file each. [`report`]: the tables and the JSON. [`plot`]: the picture.
//! - [`stage`]: the cluster and its databases. [`product`]: the processes. [`limits`]: the physical limits.
//! - [`load`] and [`follow`]: the clients. [`writer`] and [`queue`]: logs and runs that are made by SQL.
//! - [`samples`]: from completions to figures. [`cpu`]: who used the machine.
//!
//! Invariants: a ratio compares two measurements of one round; nothing leaves loopback; only processes that were started here are
//! ended here.

#![forbid(unsafe_code)]

mod cpu;
mod follow;
mod limits;
mod load;
mod plot;
mod product;
mod queue;
mod report;
mod samples;
mod scenarios;
mod stage;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use tokio::runtime::Builder;

use crate::report::Repetitions;
use crate::samples::Window;
use crate::scenarios::Scenario;
use crate::stage::Stage;

/// Of the scenarios that take no more time where measurements are longer, for each round and before the first.
const ROUND_MAX: Duration = Duration::from_secs(300);
const SET_UP_MAX: Duration = Duration::from_secs(1_200);

/// Measurements of a round that have a length: more than there are.
const SEGMENTS_MAX: u32 = 30;

/// What is measured, how long and how often; the defaults end within a quarter of an hour.
#[derive(Debug, Parser)]
#[command(name = "baton-bench", version)]
struct Args {
    #[command(flatten)]
    plan: Plan,
    /// Only these scenarios
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<Scenario>,
    /// Be the bare server that writes these frames, and say in the ready file where
    #[arg(long, hide = true, requires = "ready_file")]
    bare: Option<PathBuf>,
    #[arg(long, hide = true)]
    ready_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct Plan {
    /// Seconds of each measurement that has a length, after one of warm-up
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Repetitions of everything; ratios are taken within one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

impl Plan {
    fn window(self) -> Window {
        Window { warm_up: Duration::from_secs(1), measured: Duration::from_secs(self.seconds.into()) }
    }

    fn limit(self) -> Duration {
        SET_UP_MAX + (ROUND_MAX + self.window().total() * SEGMENTS_MAX) * self.rounds
    }
}

fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        bail!("a build without optimization measures nothing: cargo run --release -p baton-bench");
    }
    let Args { plan, only, bare, ready_file } = Args::parse();
    if let Some((frames, ready)) = bare.zip(ready_file) {
        return Builder::new_multi_thread().enable_all().build()?.block_on(limits::bare::serve(&frames, &ready));
    }
    let wanted = |scenario: &Scenario| only.is_empty() || only.contains(scenario);
    let scenarios: Vec<Scenario> = Scenario::value_variants().iter().copied().filter(wanted).collect();
    // The main future of a runtime with one thread: children are bound to the thread that spawns them, and the clients take no more
    // than one core from what they measure.
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        product::build().await?;
        let limit = plan.limit();
        tokio::time::timeout(limit, measure(plan, &scenarios))
            .await
            .with_context(|| format!("the bench did not end within {} s", limit.as_secs()))?
    })
}

async fn measure(plan: Plan, scenarios: &[Scenario]) -> Result<()> {
    let stage = Stage::set_up().await?;
    let (facts, repetitions) = (stage.facts().await?, Repetitions { rounds: plan.rounds, seconds: plan.seconds });
    print!("{}", report::head(&facts, repetitions));
    for scenario in scenarios {
        let findings = scenario.run(&stage, plan).await?;
        report::publish(&findings, &facts, repetitions, &file_of(&stage, scenario))?;
    }
    let known: Vec<PathBuf> = Scenario::value_variants().iter().map(|scenario| file_of(&stage, scenario)).collect();
    plot::targets(&known, &stage.folder.join("targets.svg"))?;
    stage.tear_down()
}

fn file_of(stage: &Stage, scenario: &Scenario) -> PathBuf {
    stage.folder.join(format!("{}.json", scenario.name()))
}
