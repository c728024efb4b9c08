//! What the database may ask us to do again.

use std::future::Future;
use std::time::Duration;

use crate::error::chain;
use sqlx::error::DatabaseError;

/// Tries of a statement whose answers are lost. A restarted server breaks every pooled connection at once: each try
/// discards one or finds a new one.
const LOST_TRIES_MAX: u32 = 6;

/// Wait before the next try, doubled each time: six tries span about three seconds, which a fast restart takes.
const LOST_WAIT: Duration = Duration::from_millis(100);

/// Longest wait for an answer: longer than any statement may take, so that only a connection that is dead without saying so
/// (a lost route, a frozen peer) runs into it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The name of the constraint that a statement violated; stores map it to an error.
pub(crate) fn constraint(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().and_then(DatabaseError::constraint)
}

/// Runs one autocommit statement, and runs it again
/// - once, where Postgres chose it as the victim of a deadlock (40P01) or serialization failure (40001): nothing was
///   written. Our order of locks makes both a defect, so each is logged;
/// - where its answer was lost. Whether it was committed is then unknown: only for statements that recognise their own
///   repetition (a new row's identifier, an expected counter, a state that is there already).
pub(crate) async fn repeat_when_lost<T, F>(mut run: impl FnMut() -> F) -> Result<T, sqlx::Error>
where
    F: Future<Output = Result<T, sqlx::Error>>,
{
    let mut wait = LOST_WAIT;
    let mut was_victim = false;
    for _ in 1..LOST_TRIES_MAX {
        match answered(ANSWER_TIMEOUT, run()).await {
            Err(error) if is_victim(&error) && !was_victim => {
                tracing::warn!(code = sqlstate(&error), "chosen as a victim; trying once more");
                was_victim = true;
            }
            Err(error) if is_lost(&error) => {
                tracing::debug!(error = chain(&error), "an answer was lost; asking again");
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            answer => return answer,
        }
    }
    answered(ANSWER_TIMEOUT, run()).await
}

/// Waits for an answer, so long and no longer; then it is lost like any other.
pub(crate) async fn answered<T>(
    within: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(within, answer).await.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}

fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(DatabaseError::code).map(Into::into)
}

pub(crate) fn is_victim(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| code == "40P01" || code == "40001")
}

/// The connection went away under the statement (08), the server is stopping or starting (57P01 to 57P03).
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        // Protocol: what a connection looks like that ends in the middle of its handshake.
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        _ => sqlstate(error).is_some_and(|code| code.starts_with("08") || matches!(code.as_str(), "57P01" | "57P02" | "57P03")),
    }
}
