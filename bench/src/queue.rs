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

    /// Queues so many runs at once, in a table that is as after a while, not as after an import, and says so to who waits for them.
    pub(crate) async fn fill(&mut self, runs: u64) -> Result<()> {
        sqlx::query("VACUUM sessions, runs, events").execute(&mut self.session).await?;
        checkpoint(&mut self.session).await?;
        let end = self.next + runs.cast_signed();
        let mut transaction = self.session.begin().await?;
        sqlx::query(include_str!("../sql/queued.sql")).bind(self.next).bind(end).execute(&mut *transaction).await?;
        sqlx::query("ANALYZE sessions, runs, events").execute(&mut *transaction).await?;
        transaction.commit().await?;
        sqlx::query("NOTIFY baton_queue").execute(&mut self.session).await?;
        self.next = end;
        Ok(())
    }

    /// Lets so many new worker processes execute so many runs, from the first claim until nothing is unfinished.
    pub(crate) async fn drain(
        &mut self,
        url: &str,
        postmaster: u32,
        runs: u64,
        workers: usize,
        settings: &[Setting<'_>],
    ) -> Result<Drained> {
        let mut processes = Vec::new();
        for _ in 0..workers {
            processes.push(Process::worker(url, settings).await?);
        }
        let pids: Vec<u32> = processes.iter().map(Process::id).collect();
        let cast = Cast { servers: &[], workers: &pids, postmaster };
        self.fill(runs).await?;
        let before = cast.used()?;
        while self.is_unfinished().await? {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let cpu = cast.used()?.since(before).each(runs as usize);
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
