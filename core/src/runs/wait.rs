//! Holding an answer until a run has come far enough: for clients that do not follow its events.

use std::time::Duration;

use futures::StreamExt;
use uuid::Uuid;

use crate::error::{Error, Resource};
use crate::events::{Frame, StreamError};
use crate::principal::Principal;
use crate::runs::service::RunService;
use crate::runs::store;
use crate::runs::view::RunView;
use crate::scope::Scope;

/// Longest wait: below the time-outs of common proxies.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// How far a run has to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// It has ended, or waits for somebody.
    NeedsNobody,
    /// It has ended.
    Ended,
}

impl Until {
    fn is_met(self, run: &RunView) -> bool {
        run.status.is_terminal() || (self == Self::NeedsNobody && run.waiting_for.is_some())
    }
}

impl RunService {
    /// The run, once it has ended or waits for a person; after `within` as it is then.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn wait(&self, principal: &Principal, run_id: Uuid, within: Duration) -> Result<RunView, Error> {
        principal.require(Scope::RunRead)?;
        self.wait_until(principal, run_id, Until::NeedsNobody, within).await
    }

    pub(super) async fn wait_until(
        &self,
        principal: &Principal,
        run_id: Uuid,
        until: Until,
        within: Duration,
    ) -> Result<RunView, Error> {
        match tokio::time::timeout(within.min(WAIT_MAX), self.watch_until(principal, run_id, until)).await {
            Ok(reached) => reached,
            Err(_) => self.view(principal, run_id).await,
        }
    }

    /// Watches first and looks then, so that nothing happens in between.
    async fn watch_until(&self, principal: &Principal, run_id: Uuid, until: Until) -> Result<RunView, Error> {
        self.follow.ready().await;
        let extent = self.extent(principal, run_id, None).await?;
        let mut frames = self.follow.run(extent.session_id, run_id, extent.head, extent.head);
        loop {
            let run = self.view(principal, run_id).await?;
            if until.is_met(&run) {
                return Ok(run);
            }
            while let Some(ready) = frames.next().await {
                match ready {
                    Ok(ready) if ready.iter().any(|frame| matches!(frame, Frame::Persisted { .. })) => break,
                    Ok(_) => {}
                    // As when the time is over: whoever waits asks again.
                    Err(StreamError::Overflow) => return Ok(run),
                    Err(StreamError::Failed(error)) => return Err(error),
                }
            }
        }
    }

    pub(super) async fn view(&self, principal: &Principal, run_id: Uuid) -> Result<RunView, Error> {
        store::find(&self.pool, principal, run_id).await?.ok_or(Error::NotFound(Resource::Run))
    }
}
