//! From a claim to a state: the run's log, read and folded.

use sqlx::PgPool;

use crate::error::Error;
use crate::events::log;
use crate::execution::conversation::{BYTES_PER_TOKEN, Conversation};
use crate::execution::queue::ClaimedRun;
use crate::execution::state::RunState;

/// The session's own first event; a run that follows it at once has no conversation before it.
const SESSION_CREATED_SEQUENCE: i64 = 1;

#[derive(Debug, Clone)]
pub struct Replay {
    pool: PgPool,
    history_tokens: usize,
}

impl Replay {
    pub fn new(pool: PgPool, history_tokens: u32) -> Self {
        Self { pool, history_tokens: usize::try_from(history_tokens).unwrap_or(usize::MAX) }
    }

    /// Where the run stands, by its log alone.
    ///
    /// # Errors
    /// The database's; `Internal` where the log does not decode or contradicts the rules.
    pub async fn state_of(&self, run: &ClaimedRun) -> Result<RunState, Error> {
        let mut state = RunState::new(self.history_before(run).await?);
        let (run_id, session_id) = (run.lease.run_id(), run.lease.session_id());
        let mut after = run.first_sequence - 1;
        loop {
            let page = log::read_after(&self.pool, session_id, after, log::PAGE_ROWS).await?;
            for event in page.events.iter().filter(|event| event.run_id == Some(run_id)) {
                state.apply(&event.decode().map_err(Error::internal)?).map_err(Error::internal)?;
            }
            match page.events.last() {
                Some(last) if !page.is_last => after = last.sequence,
                _ => return Ok(state),
            }
        }
    }

    async fn history_before(&self, run: &ClaimedRun) -> Result<Conversation, Error> {
        let mut history = Conversation::default();
        if run.first_sequence <= SESSION_CREATED_SEQUENCE + 1 {
            return Ok(history);
        }
        // Bodies are longer than what a model is shown of them, so this reaches further back than the budget.
        let bytes_max = i64::try_from(self.history_tokens * BYTES_PER_TOKEN * 2).unwrap_or(i64::MAX);
        for event in log::read_transcript(&self.pool, run.lease.session_id(), run.first_sequence, bytes_max).await? {
            history.apply(&event.decode().map_err(Error::internal)?);
        }
        history.trim(self.history_tokens);
        Ok(history)
    }
}
