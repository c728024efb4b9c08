//! Submissions that come at the same time are stored together: one statement and one commit for all that are waiting.
//!
//! A few tasks, each with a connection of its own, take what is ready and never wait for company. They never wait for whoever
//! holds a row, either: what a batch leaves out, and whatever goes wrong in it, its submitters store alone, each over the pool.
//! So nobody shares a neighbour's failure, and one statement says what a submission comes to ([`submission::submit`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::db::{self, OwnConnections};
use crate::error::chain;
use crate::gather::Waiting;
use crate::runs::submission::{self, NewRun, Submission};

/// Batches on their way at once: one gathers its log while the other's is flushed. More of them are smaller.
const WRITERS: usize = 2;

/// Runs of one statement. Beyond it a batch gains nothing and its locks last longer.
const BATCH_RUNS_MAX: usize = 64;

/// Submissions that may wait for a writer; those beyond wait to be heard.
const WAITING_MAX: usize = 1_024;

/// Who the writers are, as `pg_stat_activity` shows it.
const APPLICATION_NAME: &str = "baton submissions";

/// How long a batch waits for a lock: ordinary statements hold theirs for less, and all of its members wait with it.
const LOCK_TIMEOUT: &str = "25ms";

/// How long a batch waits for its answer. A database that is so slow is met by each alone, with everything that the pool and the
/// repetition of lost statements have for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Submissions {
    members: mpsc::Sender<Member>,
    pool: PgPool,
}

#[derive(Debug)]
struct Member {
    new: Arc<NewRun>,
    /// None: it is to be stored alone.
    answer: oneshot::Sender<Option<Submission>>,
}

impl Submissions {
    /// Starts the writers; they connect as the pool does, when there is something to write, and end when the last clone is gone.
    pub(crate) fn start(pool: PgPool) -> Self {
        let (members, receiver) = mpsc::channel(WAITING_MAX);
        let waiting = Waiting::new(receiver);
        let options = PgConnectOptions::clone(&pool.connect_options());
        let options = options.application_name(APPLICATION_NAME).options([("lock_timeout", LOCK_TIMEOUT)]);
        for _ in 0..WRITERS {
            let writer = Writer { connection: OwnConnections::one(options.clone()) };
            tokio::spawn(writer.run(waiting.clone()));
        }
        Self { members, pool }
    }

    /// Stores the run, its key and its first events.
    pub(super) async fn store(&self, new: &Arc<NewRun>) -> Result<Submission, sqlx::Error> {
        match self.together(new).await {
            Some(submission) => Ok(submission),
            None => db::repeat_when_lost(|| submission::submit(&self.pool, new)).await,
        }
    }

    async fn together(&self, new: &Arc<NewRun>) -> Option<Submission> {
        let (answer, answered) = oneshot::channel();
        self.members.send(Member { new: Arc::clone(new), answer }).await.ok()?;
        answered.await.ok()?
    }
}

/// The statement takes one run of a session, and one of a key.
fn joins(batch: &[Member], next: &Member) -> bool {
    let is_alike =
        |other: &Member| other.new.session_id == next.new.session_id || next.new.key.is_some() && other.new.key == next.new.key;
    batch.len() < BATCH_RUNS_MAX && !batch.iter().any(is_alike)
}

struct Writer {
    connection: OwnConnections,
}

impl Writer {
    async fn run(self, waiting: Waiting<Member>) {
        while let Some(batch) = waiting.batch(joins).await {
            let (new, answers): (Vec<_>, Vec<_>) = batch.into_iter().map(|member| (member.new, member.answer)).unzip();
            let mut stored = db::answered(ANSWER_TIMEOUT, self.write(&new)).await.unwrap_or_else(|error| {
                tracing::debug!(error = chain(&error), runs = new.len(), "not stored together; each will be alone");
                HashMap::new()
            });
            for (new, answer) in new.iter().zip(answers) {
                let _ = answer.send(stored.remove(&new.id)); // a submitter is shielded: it waits
            }
        }
    }

    async fn write(&self, new: &[Arc<NewRun>]) -> Result<HashMap<Uuid, Submission>, sqlx::Error> {
        let mut connection = self.connection.lend().await?;
        if let [alone] = new {
            let answer = submission::submit(&mut *connection, alone).await;
            return Ok(HashMap::from([(alone.id, connection.answered(answer)?)]));
        }
        let answer = submission::submit_together(&mut *connection, new).await;
        let stored = connection.answered(answer)?;
        Ok(stored.into_iter().map(|run| (run.run_id, Submission::Created { last_sequence: run.last_sequence })).collect())
    }
}
