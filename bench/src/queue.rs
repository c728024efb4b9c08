//! Queued no-op runs, inserted by SQL, and what becomes of them.

use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::{Connection, PgConnection};

use crate::cpu::{Cast, Share};
use crate::product::{Process, Setting};
use crate::stage::checkpoint;

/// Numbers of twelve digits, and far from those of other scenarios.
const FIRST_RUN: i64 = 200_000_000_000;

/// Seldom: what looking costs is missing elsewhere. The database says when the last run ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Events of a no-op run.
const EVENTS: i64 = 8;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) session: PgConnection,
    next: i64,
}

/// How a queue became empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drained {
    pub(crate) seconds: f64,
    pub(crate) cpu: Share,
}

impl Queue {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let mut session = PgConnection::connect(url).await?;
        // To look whether something is unfinished must not read what is finished.
        sqlx::query("SET enable_seqscan = off").execute(&mut session).await?;
        Ok(Self { session, next: FIRST_RUN })
    }

    /// Queues so many runs; statistics and pages are as after a while, not as after an import.
    pub(crate) async fn fill(&mut self, runs: u64) -> Result<()> {
        let end = self.next + runs.cast_signed();
        sqlx::query(include_str!("../sql/queued.sql")).bind(self.next).bind(end).execute(&mut self.session).await?;
        self.next = end;
        sqlx::query("VACUUM ANALYZE sessions, runs, events").execute(&mut self.session).await?;
        checkpoint(&mut self.session).await
    }

    /// Lets so many new worker processes execute the queue, from the first claim until nothing is unfinished.
    pub(crate) async fn drain(
        &mut self,
        url: &str,
        postmaster: u32,
        runs: u64,
        workers: usize,
        settings: &[Setting<'_>],
    ) -> Result<Drained> {
        let mut processes = Vec::new();
        let idle = Cast { servers: &[], workers: &[], postmaster }.used()?;
        for _ in 0..workers {
            processes.push(Process::worker(url, settings).await?);
        }
        while self.is_unfinished().await? {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let pids: Vec<u32> = processes.iter().map(Process::id).collect();
        // Workers begin at nothing: what they used is what they have used since their start.
        let cpu = Cast { servers: &[], workers: &pids, postmaster }.used()?.since(idle).each(runs as usize);
        let seconds = sqlx::query_scalar(include_str!("../sql/drained.sql")).bind(self.next - runs.cast_signed());
        Ok(Drained { seconds: seconds.fetch_one(&mut self.session).await?, cpu })
    }

    async fn is_unfinished(&mut self) -> Result<bool> {
        let look = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM runs WHERE finished_at IS NULL)");
        Ok(look.fetch_one(&mut self.session).await?)
    }

    /// Every run was completed, with a whole log.
    pub(crate) async fn audit(&mut self) -> Result<()> {
        let (runs, events): (i64, i64) =
            sqlx::query_as("SELECT (SELECT count(*) FROM runs WHERE status = 'COMPLETED'), (SELECT count(*) FROM events)")
                .fetch_one(&mut self.session)
                .await?;
        ensure!(
            (runs, events) == (self.next - FIRST_RUN, EVENTS * (self.next - FIRST_RUN)),
            "{} runs were queued, {runs} are completed with {events} events",
            self.next - FIRST_RUN
        );
        Ok(())
    }
}
