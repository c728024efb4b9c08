//! Submissions that come at the same time are stored together: one statement and one commit for all that are waiting.
//!
//! A few tasks, each with a connection of its own, take what is ready and never wait for company. They never wait for whoever
//! holds a row, either: what a batch leaves out, and whatever goes wrong in it, its submitters store alone, each over the pool.
//! So nobody shares a neighbour's failure, and one statement says what a submission comes to ([`submission::submit`]).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, PgPool};
use tokio::sync::{Mutex, mpsc, oneshot};
use uuid::Uuid;

use crate::db;
use crate::error::chain;
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
    /// Starts the writers; they connect when there is something to write, and end when the last clone is gone.
    pub(crate) fn start(pool: PgPool, options: PgConnectOptions) -> Self {
        let (members, receiver) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(Waiting { receiver, left_over: None }));
        let options = options.application_name(APPLICATION_NAME).options([("lock_timeout", LOCK_TIMEOUT)]);
        for _ in 0..WRITERS {
            tokio::spawn(Writer { options: options.clone(), connection: None }.run(Arc::clone(&waiting)));
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

/// What no writer has taken yet.
struct Waiting {
    receiver: mpsc::Receiver<Member>,
    /// Taken, and not for the batch that it was taken for.
    left_over: Option<Member>,
}

impl Waiting {
    /// What is ready, at least one. None: there will be no more.
    async fn batch(&mut self) -> Option<Vec<Member>> {
        let first = match self.left_over.take() {
            Some(member) => member,
            None => self.receiver.recv().await?,
        };
        let mut sessions = HashSet::from([first.new.session_id]);
        let mut keys: HashSet<String> = first.new.key.iter().map(|key| key.key().to_owned()).collect();
        let mut batch = vec![first];
        while batch.len() < BATCH_RUNS_MAX {
            let Ok(member) = self.receiver.try_recv() else { break };
            let is_twice = !sessions.insert(member.new.session_id)
                || member.new.key.as_ref().is_some_and(|key| !keys.insert(key.key().to_owned()));
            if is_twice {
                self.left_over = Some(member);
                break;
            }
            batch.push(member);
        }
        Some(batch)
    }
}

struct Writer {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
}

impl Writer {
    async fn run(mut self, waiting: Arc<Mutex<Waiting>>) {
        loop {
            let Some(batch) = waiting.lock().await.batch().await else { return };
            let (new, answers): (Vec<_>, Vec<_>) = batch.into_iter().map(|member| (member.new, member.answer)).unzip();
            let mut stored = db::answered(ANSWER_TIMEOUT, self.write(&new)).await.unwrap_or_else(|error| {
                tracing::debug!(error = chain(&error), runs = new.len(), "not stored together; each will be alone");
                if db::is_lost(&error) {
                    self.connection = None;
                }
                Vec::new()
            });
            for (new, answer) in new.iter().zip(answers) {
                let ours = stored.iter().position(|(run_id, _)| *run_id == new.id);
                let _ = answer.send(ours.map(|at| stored.swap_remove(at).1)); // a submitter is shielded: it waits
            }
        }
    }

    async fn write(&mut self, new: &[Arc<NewRun>]) -> Result<Vec<(Uuid, Submission)>, sqlx::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.options.connect().await?),
        };
        if let [alone] = new {
            return Ok(vec![(alone.id, submission::submit(connection, alone).await?)]);
        }
        let stored = submission::submit_together(connection, new).await?;
        Ok(stored.into_iter().map(|run| (run.run_id, Submission::Created { last_sequence: run.last_sequence })).collect())
    }
}
