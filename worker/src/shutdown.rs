//! Leaving without losing anything: stop claiming, let steps reach a boundary, hand the rest back.

use std::time::Duration;

use crate::control::StopReason;
use crate::worker::Worker;
use baton_core::error::chain;

/// How often the drain looks whether everything has stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// For what was told to stop at once to write that it did.
const HAND_BACK_WAIT: Duration = Duration::from_secs(5);

impl Worker {
    /// Renewals and cancellations go on meanwhile: a draining worker must not look dead, nor deaf. True: nothing is left.
    pub(crate) async fn drain(&self) -> bool {
        self.executions.stop_all(StopReason::Draining);
        if self.all_stopped(self.config.worker.drain).await {
            return true;
        }
        self.executions.stop_all(StopReason::HandBack);
        let all_stopped = self.all_stopped(HAND_BACK_WAIT).await;
        if !all_stopped {
            tracing::warn!("some runs could not be handed back; their lease will expire");
        }
        all_stopped
    }

    /// Says goodbye, so that nobody waits for the lease to expire.
    pub(crate) async fn retire(&self) {
        if let Err(error) = self.renewal.retire().await {
            tracing::warn!(error = chain(&error), "could not say goodbye; the lease will expire");
        }
    }

    async fn all_stopped(&self, within: Duration) -> bool {
        let stopped = async {
            while !self.executions.is_empty() {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        tokio::time::timeout(within, stopped).await.is_ok()
    }
}
