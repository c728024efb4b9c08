//! Writes of a torture worker, and what becomes of them.

use std::time::Duration;

use baton_core::execution::{Append, Ending, SuspendOutcome, Suspension, WriteError};
use futures::future::join_all;
use uuid::Uuid;

use super::{Held, TortureWorker};
use crate::torture::calls;
use crate::torture::marker::Write;
use crate::torture::plan::{Plan, Then};

impl TortureWorker {
    /// One write to each of these runs, all at once; beside them, a release. What is left to execute.
    pub(super) async fn write(&mut self, batch: Vec<Held>, leases: &[(Uuid, i32)]) -> Vec<Held> {
        let planned = batch.into_iter().map(|held| {
            let plan = Plan::new(&self.world, &mut self.rng, &held);
            (held, plan)
        });
        let mut planned: Vec<(Held, Plan)> = planned.collect();
        let writes = join_all(planned.iter_mut().map(|(held, plan)| self.write_one(held, plan)));
        let (answers, _) = tokio::join!(writes, self.release(leases, Duration::ZERO));
        let mut left = Vec::new();
        for ((held, plan), answer) in planned.into_iter().zip(answers) {
            left.extend(self.take_answer(held, plan, answer).await);
        }
        left
    }

    async fn write_one(&self, held: &mut Held, plan: &Plan) -> Result<SuspendOutcome, WriteError> {
        let (events, calls, totals) = (&plan.events, plan.rows.clone(), plan.state.totals());
        let ending = match &plan.then {
            Then::Waits(asks) => {
                let suspension = Suspension { events, calls, totals, asks: asks.clone() };
                return self.journal.suspend(&mut held.lease, suspension).await;
            }
            Then::Ends(ending) => Some(ending.clone()),
            Then::GoesOn => None,
        };
        let append = Append { events, calls, model: plan.model.clone(), totals, ending, cancel_observed: held.cancel_requested };
        self.journal.append(&mut held.lease, append).await.map(|()| SuspendOutcome::Waiting)
    }

    async fn take_answer(&self, held: Held, plan: Plan, answer: Result<SuspendOutcome, WriteError>) -> Option<Held> {
        let id = held.lease.run_id();
        match answer {
            // Nothing was written, and the run is still ours.
            Ok(SuspendOutcome::CancelRequested) => {
                self.world.count("suspensions refused");
                Some(Held { cancel_requested: true, ..held })
            }
            Ok(SuspendOutcome::Waiting) => {
                self.world.remember(|facts| facts.written.push((id, plan.write)));
                self.world.count(match &plan.then {
                    Then::GoesOn => "written",
                    Then::Waits(_) => "suspended",
                    Then::Ends(Ending::Completed) => "completed",
                    Then::Ends(Ending::Failed { .. }) => "failed",
                    Then::Ends(Ending::Cancelled) => "cancelled by worker",
                    Then::Ends(Ending::HandedBack) => "handed back",
                });
                let (goes_on, asked) = (matches!(plan.then, Then::GoesOn), plan.asked());
                let invocations = calls::after(held.invocations, plan.rows);
                goes_on.then_some(Held { state: plan.state, invocations, asked, is_new: false, lease: held.lease, ..held })
            }
            Err(WriteError::Fenced) => {
                self.world.count("fenced");
                self.check_fenced(id, plan.write).await;
                None
            }
            // Nobody knows: whoever has the run next reads it in the log.
            Err(WriteError::Unanswered) => {
                self.world.count("unanswered");
                None
            }
            // Nothing was written: the next write has the same number.
            Err(WriteError::Refused(error)) => {
                self.world.judge("append", &error);
                Some(held)
            }
        }
    }

    /// Nothing was written, or the run is in other hands since: then a lost answer cannot be found again.
    async fn check_fenced(&self, id: Uuid, write: Write) {
        let (epoch, appends, owner): (i32, i32, Option<Uuid>) =
            sqlx::query_as("SELECT lease_epoch, appends, lease_owner FROM runs WHERE id = $1")
                .bind(id)
                .fetch_one(&self.observer)
                .await
                .unwrap();
        if epoch == write.epoch && i64::from(appends) >= i64::from(write.number) {
            self.world.wrong(format!("run {id}: {write:?} was denied and is there"));
        }
        // The lease of this very claim, with no write that the worker does not know of.
        if epoch == write.epoch && owner.is_some() && i64::from(appends) + 1 == i64::from(write.number) {
            self.world.wrong(format!("run {id}: {write:?} was denied to the owner of the run"));
        }
    }
}
