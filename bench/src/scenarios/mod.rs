//! What is measured, one file each. A scenario has a database of its own, and yields figures and targets.

mod cancel;
mod drain;
mod growth;
mod latency;
mod live;
mod memory;
mod replay;
mod submit;
mod takeover;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::Plan;
use crate::report::Findings;
use crate::stage::Stage;

/// In the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Submit,
    Latency,
    Drain,
    Live,
    Replay,
    Memory,
    Cancel,
    Takeover,
    Growth,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Latency => "latency",
            Self::Drain => "drain",
            Self::Live => "live",
            Self::Replay => "replay",
            Self::Cancel => "cancel",
            Self::Takeover => "takeover",
            Self::Memory => "memory",
            Self::Growth => "growth",
        }
    }

    pub(crate) async fn run(self, stage: &Stage, plan: Plan) -> Result<Findings> {
        let url = stage.database(self.name()).await?;
        let findings = match self {
            Self::Submit => submit::run(stage, &url, plan).await,
            Self::Latency => latency::run(stage, &url, plan).await,
            Self::Drain => drain::run(stage, &url, plan).await,
            Self::Live => live::run(stage, &url, plan).await,
            Self::Replay => replay::run(stage, &url, plan).await,
            Self::Cancel => cancel::run(stage, &url, plan).await,
            Self::Takeover => takeover::run(stage, &url, plan).await,
            Self::Memory => memory::run(stage, &url, plan).await,
            Self::Growth => growth::run(stage, &url, plan).await,
        };
        let findings = findings.with_context(|| self.name())?;
        stage.drop_database(self.name()).await?;
        Ok(findings)
    }
}
