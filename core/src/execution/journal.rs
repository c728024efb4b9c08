//! Writes of executing runs: appends and ends of concurrent runs are committed together.
//!
//! A few tasks take whatever is ready, and never wait when they are idle: while their statements are on the way the next batch
//! gathers. A fenced run never fails its neighbours; on any error each member is written alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::db::{self, OwnConnections};
use crate::error::Error;
use crate::error::chain;
use crate::events::Event;
use crate::execution::lease::Lease;
use crate::execution::settle::{self, AppendRow, Appended, AskingEvent, Asks, Ending, EventRow, Fence, SuspendRow, Suspended};
use crate::execution::state::Totals;
use crate::fault::{Faults, Point};
use crate::gather::Waiting;
use crate::models::ModelRows;
use crate::notify::{Hint, Notifier};
use crate::tools::CallRows;

/// Statements on their way at once: one commit is flushed while the next batch is executed. A run waits for each of its writes, so
/// that no two of them are on the way.
const WRITERS: usize = 2;

/// Runs of one statement. Beyond it a batch gains nothing and its locks last longer.
const BATCH_RUNS_MAX: usize = 64;

/// Bytes of bodies of one statement, after which the rest waits for the next.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Longest wait for an answer: longer than a statement may take, shorter than anybody should wait for a dead connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Tries of a write whose answer is lost, a wait between them that doubles up to the bound: longer than a restart of the
/// database takes. A worker that cannot renew meanwhile is told so by its own clock.
const LOST_TRIES_MAX: u32 = 24;
const LOST_WAIT: Duration = Duration::from_millis(50);
const LOST_WAIT_MAX: Duration = Duration::from_secs(2);

/// What a run writes next. The totals are those of the fold with these events in it.
#[derive(Debug)]
pub struct Append<'a> {
    pub events: &'a [Event],
    pub calls: CallRows,
    pub model: ModelRows,
    pub totals: Totals,
    pub ending: Option<Ending>,
    /// The worker has seen the request to cancel.
    pub cancel_observed: bool,
}

/// What a run writes as it lets go to wait for a person. The totals are those of the fold with these events in it.
#[derive(Debug)]
pub struct Suspension<'a> {
    pub events: &'a [Event],
    pub calls: CallRows,
    pub totals: Totals,
    pub asks: Asks,
}

/// What became of a suspension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendOutcome {
    Waiting,
    /// A request to cancel stands, and nothing was written: the run is to be cancelled.
    CancelRequested,
}

/// Why a write did not succeed. Whoever gets one stops: only a refusal says for certain that nothing is on record, since a
/// write whose answer was lost may be, and a later owner may have hidden it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// The lease is lost: somebody else may execute the run. A value, not an accident: stop at once, write nothing more.
    #[error("the lease is lost")]
    Fenced,
    /// The database did not answer for so long that it was given up: it may have been written. As good as fenced: whoever
    /// reads the log next knows.
    #[error("the database does not answer")]
    Unanswered,
    /// The database refused it: a defect.
    #[error("the write was refused")]
    Refused(#[source] Arc<Error>),
}

#[derive(Debug, Clone)]
pub struct Journal {
    members: mpsc::Sender<Member>,
    /// For suspensions, which are written alone.
    statements: Statements,
}

/// A write on its way, and who waits for it.
#[derive(Debug)]
struct Member {
    session_id: Uuid,
    row: AppendRow,
    answer: oneshot::Sender<Result<(), WriteError>>,
}

impl Member {
    fn bytes(&self) -> usize {
        let arguments = self.row.calls.new.iter().map(|invocation| invocation.arguments.len());
        let continuation = self.row.model.continuation.iter().map(|(_, bytes)| bytes.len());
        self.row.events.iter().map(|event| event.body.len()).chain(arguments).chain(continuation).sum()
    }
}

impl Journal {
    /// Starts the tasks that write; they connect as the pool does, and end when the last clone is gone.
    pub fn start(pool: PgPool, notifier: Notifier, faults: Faults) -> Self {
        let (members, receiver) = mpsc::channel(BATCH_RUNS_MAX);
        let waiting = Waiting::new(receiver);
        let statements = Statements { pool, notifier, faults };
        for _ in 0..WRITERS {
            let connection = OwnConnections::one(PgConnectOptions::clone(&statements.pool.connect_options()));
            tokio::spawn(Writer { connection, statements: statements.clone() }.run(waiting.clone()));
        }
        Self { members, statements }
    }

    /// Commits events of one run, and its end where it ends. Returns when they are committed.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn append(&self, lease: &mut Lease, append: Append<'_>) -> Result<(), WriteError> {
        let row = AppendRow {
            fence: fence_of(lease),
            ending: append.ending,
            step_count: i32::try_from(append.totals.step_count).unwrap_or(i32::MAX),
            usage: append.totals.usage,
            cancel_observed: append.cancel_observed,
            events: append.events.iter().map(row_of).collect(),
            calls: append.calls,
            model: append.model,
        };
        let (answer, written) = oneshot::channel();
        let gone = |_| WriteError::Refused(Arc::new(Error::internal("the journal has ended")));
        self.members.send(Member { session_id: lease.session_id(), row, answer }).await.map_err(|_| gone(()))?;
        written.await.map_err(|_| gone(()))??;
        lease.count_append();
        Ok(())
    }

    /// Lets one run wait for a person, and releases it.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn suspend(&self, lease: &mut Lease, suspension: Suspension<'_>) -> Result<SuspendOutcome, WriteError> {
        let asking = |event: &Event| AskingEvent {
            row: row_of(event),
            expiry: suspension.asks.expiry_of(event).map(|(estimate, ttl)| (expiry_member(estimate), ttl)),
        };
        let events = suspension.events.iter().map(asking).collect();
        let (calls, totals, asks) = (suspension.calls, suspension.totals, suspension.asks);
        let row = SuspendRow { fence: fence_of(lease), totals, events, calls, asks };
        let outcome = self.statements.suspend(lease.session_id(), &row).await?;
        if outcome == SuspendOutcome::Waiting {
            lease.count_append(); // a refusal wrote nothing: whoever ends the run now has the number that it had
        }
        Ok(outcome)
    }
}

const fn fence_of(lease: &Lease) -> Fence {
    Fence { run_id: lease.run_id(), owner: lease.worker_id(), epoch: lease.epoch(), appends: lease.appends() }
}

fn row_of(event: &Event) -> EventRow {
    EventRow { event_type: event.event_type().as_str(), schema_version: event.schema_version(), body: event.body() }
}

/// The member of a body that says when what it asks expires. Unescaped quotes make it unmistakable.
fn expiry_member(expires_at: OffsetDateTime) -> String {
    let text = expires_at.format(&Rfc3339).expect("a time of ours has a year of four digits");
    format!("\"expires_at\":\"{text}\"")
}

fn joins(batch: &[Member], next: &Member) -> bool {
    let bytes: usize = batch.iter().chain([next]).map(Member::bytes).sum();
    // A run twice: an execution that was fenced and its successor in the same process. The statement takes a run once.
    let is_twice = batch.iter().any(|other| other.row.fence.run_id == next.row.fence.run_id);
    batch.len() < BATCH_RUNS_MAX && bytes <= BATCH_BYTES_MAX && !is_twice
}

/// What became of each run of a batch: the sequence of its last event.
type Answers = HashMap<Uuid, Result<i64, WriteError>>;

struct Writer {
    connection: OwnConnections,
    statements: Statements,
}

impl Writer {
    async fn run(self, waiting: Waiting<Member>) {
        while let Some(batch) = waiting.batch(joins).await {
            self.append(batch).await;
        }
    }

    async fn append(&self, batch: Vec<Member>) {
        let (rows, waiting): (Vec<AppendRow>, Vec<_>) =
            batch.into_iter().map(|member| (member.row, (member.session_id, member.answer))).unzip();
        let mut answers = match self.append_rows(&rows).await {
            Ok(answers) => answers,
            Err(_) if rows.len() > 1 => self.append_each(&rows).await,
            Err(error) => rows.iter().map(|row| (row.fence.run_id, Err(error.clone()))).collect(),
        };
        let (mut hints, mut soon) = (Vec::new(), Vec::new());
        for (row, (session_id, answer)) in rows.iter().zip(waiting) {
            let outcome = answers.remove(&row.fence.run_id).unwrap_or(Err(WriteError::Fenced));
            if let Ok(sequence) = outcome {
                let told = if row.ending.is_some() { &mut hints } else { &mut soon };
                told.push(Hint::Events { session_id, sequence });
                if row.ending == Some(Ending::HandedBack) {
                    hints.push(Hint::Queue);
                }
            }
            let _ = answer.send(outcome.map(|_| ())); // a run that does not wait any more has stopped
        }
        self.statements.notifier.send_soon(soon);
        self.statements.notifier.send(hints);
    }

    async fn write(&self, rows: &[AppendRow]) -> Result<Vec<Appended>, sqlx::Error> {
        let mut connection = self.connection.lend().await?;
        let answer = settle::append_and_settle(&mut *connection, rows).await;
        connection.answered(answer)
    }

    async fn append_each(&self, rows: &[AppendRow]) -> Answers {
        let mut answers = HashMap::new();
        for row in rows {
            let answer = self.append_rows(std::slice::from_ref(row)).await;
            answers.extend(answer.unwrap_or_else(|error| HashMap::from([(row.fence.run_id, Err(error))])));
        }
        answers
    }

    /// One statement. What is absent from its answer was committed by an earlier try whose answer was lost, or is fenced.
    async fn append_rows(&self, rows: &[AppendRow]) -> Result<Answers, WriteError> {
        let appended = self.statements.answered(|| self.write(rows)).await?;
        let mut answers: Answers = appended.into_iter().map(|row| (row.run_id, Ok(row.last_sequence))).collect();
        let absent: Vec<Fence> = rows.iter().map(|row| row.fence).filter(|fence| !answers.contains_key(&fence.run_id)).collect();
        if !absent.is_empty() {
            match self.statements.committed_before(&absent).await {
                Ok(before) => answers.extend(before.into_iter().map(|row| (row.run_id, Ok(row.last_sequence)))),
                Err(error) => answers.extend(absent.iter().map(|fence| (fence.run_id, Err(error.clone())))),
            }
        }
        Ok(answers)
    }
}

/// The statements, asked again where their answer is lost.
#[derive(Debug, Clone)]
struct Statements {
    pool: PgPool,
    notifier: Notifier,
    faults: Faults,
}

impl Statements {
    async fn suspend(&self, session_id: Uuid, row: &SuspendRow) -> Result<SuspendOutcome, WriteError> {
        self.faults.hit(Point::BeforeSuspend).await.map_err(refused)?;
        let last_sequence = match self.answered(|| settle::suspend(&self.pool, row)).await? {
            Some(Suspended::Waiting { last_sequence }) => last_sequence,
            Some(Suspended::CancelRequested) => return Ok(SuspendOutcome::CancelRequested),
            None => {
                let before = self.committed_before(&[row.fence]).await?;
                before.first().ok_or(WriteError::Fenced)?.last_sequence
            }
        };
        self.faults.hit(Point::AfterSuspend).await.map_err(refused)?;
        self.notifier.send([Hint::Events { session_id, sequence: last_sequence }]);
        Ok(SuspendOutcome::Waiting)
    }

    /// A new statement: the snapshot of the one before may not show what it had waited for.
    async fn committed_before(&self, writes: &[Fence]) -> Result<Vec<Appended>, WriteError> {
        let before = db::repeat_when_lost(|| settle::committed_before(&self.pool, writes)).await;
        before.map_err(|_| WriteError::Unanswered)
    }

    /// A lost answer is asked for again with the same counters, so that a write that was committed is not doubled.
    async fn answered<T, F>(&self, statement: impl Fn() -> F) -> Result<T, WriteError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let mut wait = LOST_WAIT;
        let mut was_victim = false;
        for _ in 0..LOST_TRIES_MAX {
            self.faults.hit(Point::BeforeAppend).await.map_err(refused)?;
            match db::answered(ANSWER_TIMEOUT, statement()).await {
                Ok(answer) => {
                    self.faults.hit(Point::AfterAppend).await.map_err(refused)?;
                    return Ok(answer);
                }
                Err(error) if db::is_victim(&error) && !was_victim => {
                    tracing::warn!(error = chain(&error), "chosen as a victim; writing once more");
                    was_victim = true;
                }
                Err(error) if db::is_lost(&error) || matches!(error, sqlx::Error::PoolTimedOut) => {
                    tracing::warn!(error = chain(&error), "a write had no answer; asking again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LOST_WAIT_MAX);
                }
                Err(error) => {
                    return Err(match Error::from(error) {
                        // Cancelled by its time limit: somebody holds a row. In a batch that is one member's trouble.
                        Error::Unavailable { .. } => WriteError::Unanswered,
                        other => refused(other),
                    });
                }
            }
        }
        Err(WriteError::Unanswered)
    }
}

fn refused(error: Error) -> WriteError {
    WriteError::Refused(Arc::new(error))
}
