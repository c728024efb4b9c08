//! Named places where a test can kill, stop, pause or fail a process. Compiled into tests only: without the feature
//! `fault-points` a [`Faults`] is empty and a hit is nothing.

use crate::error::Error;

/// The places. Each lies between two things that must not be confused after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// A claim was committed; nobody knows of it yet.
    AfterClaim,
    /// The run was folded; nothing of this execution is written.
    AfterFold,
    /// A batch of writes is about to be sent.
    BeforeAppend,
    /// A batch of writes is committed; no run knows of it yet.
    AfterAppend,
    /// The request is on record; the model has not been asked.
    BeforeModel,
    /// The model has answered; nothing of the answer is on record.
    AfterModel,
    /// The fourteen steps of the pipeline, each when it is done: what it is called is there.
    ToolResolved,
    ToolEnabled,
    ScopesChecked,
    ArgumentsValidated,
    ArgumentsHashed,
    PolicyDecided,
    ApprovalChecked,
    /// The intent of every call of the turn is on record; none has been started.
    IntentRecorded,
    /// The start of a call is on record; the tool has not been called.
    BeforeTool,
    /// The tool has answered; nothing of the answer is on record.
    AfterTool,
    ResultValidated,
    ResultFitted,
    /// The result is on record.
    ResultRecorded,
    /// The model's next request has it.
    ResultRendered,
    /// That an effect may have been sent is on record; nothing has been sent.
    EffectMarked,
    /// The effect is out; the tool has not answered.
    EffectSent,
    /// A run is about to let go and wait.
    BeforeSuspend,
    /// A run waits; nobody knows of it yet.
    AfterSuspend,
    /// Everything but the end is on record.
    BeforeFinish,
    /// A renewal of the worker's lease is about to be sent.
    BeforeRenew,
    /// A submission was committed; the client has no answer.
    AfterSubmit,
    /// A decision was committed; nobody has been woken.
    AfterResolve,
    /// An answer was committed; nobody has been woken.
    AfterInput,
}

#[cfg(not(feature = "fault-points"))]
#[derive(Debug, Clone, Default)]
pub struct Faults(());

#[cfg(not(feature = "fault-points"))]
impl Faults {
    /// Nothing is armed, whatever the environment says.
    pub fn from_env() -> Self {
        Self(())
    }

    #[expect(clippy::unused_async, reason = "with fault points it waits")]
    pub(crate) async fn point(&self, _: Point) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(feature = "fault-points")]
pub use armed::{Action, Faults};

impl Faults {
    /// # Errors
    /// Where a test wants one.
    #[inline]
    pub async fn hit(&self, point: Point) -> Result<(), Error> {
        self.point(point).await
    }
}

#[cfg(feature = "fault-points")]
mod armed {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex, PoisonError};

    use nix::sys::signal::{Signal, kill, raise};
    use nix::unistd::Pid;
    use tokio::sync::Semaphore;

    use super::Point;
    use crate::error::Error;

    impl Point {
        pub const ALL: &[Self] = &[
            Self::AfterClaim,
            Self::AfterFold,
            Self::BeforeAppend,
            Self::AfterAppend,
            Self::BeforeModel,
            Self::AfterModel,
            Self::ToolResolved,
            Self::ToolEnabled,
            Self::ScopesChecked,
            Self::ArgumentsValidated,
            Self::ArgumentsHashed,
            Self::PolicyDecided,
            Self::ApprovalChecked,
            Self::IntentRecorded,
            Self::BeforeTool,
            Self::AfterTool,
            Self::ResultValidated,
            Self::ResultFitted,
            Self::ResultRecorded,
            Self::ResultRendered,
            Self::EffectMarked,
            Self::EffectSent,
            Self::BeforeSuspend,
            Self::AfterSuspend,
            Self::BeforeFinish,
            Self::BeforeRenew,
            Self::AfterSubmit,
            Self::AfterResolve,
            Self::AfterInput,
        ];

        /// As `BATON_FAULTS` names it: `AfterClaim`.
        pub fn name(self) -> String {
            format!("{self:?}")
        }
    }

    /// What happens to whoever comes by.
    #[derive(Debug, Clone)]
    pub enum Action {
        /// SIGKILL to this process.
        Kill,
        /// SIGSTOP to this process.
        Stop,
        /// Waits for a permit of the semaphore.
        Pause(Arc<Semaphore>),
        /// An internal error.
        Fail,
    }

    #[derive(Debug, Clone, Default)]
    pub struct Faults {
        armed: Arc<Mutex<HashMap<Point, Armed>>>,
        /// Every point that somebody came by, in order.
        passed: Arc<Mutex<Vec<Point>>>,
    }

    #[derive(Debug)]
    struct Armed {
        action: Action,
        /// Hits that go by before it strikes, once.
        skip: u32,
    }

    impl Faults {
        /// From `BATON_FAULTS`: `AfterClaim=kill,BeforeTool=stop@2` strikes at the first claim and at the second call.
        pub fn from_env() -> Self {
            let faults = Self::default();
            for entry in std::env::var("BATON_FAULTS").unwrap_or_default().split(',').filter(|entry| !entry.is_empty()) {
                let (name, action) = entry.split_once('=').expect("BATON_FAULTS is point=action");
                let (action, nth) = action.split_once('@').unwrap_or((action, "1"));
                let point = Point::ALL.iter().find(|point| point.name() == name).expect("BATON_FAULTS names a point");
                let action = match action {
                    "kill" => Action::Kill,
                    "stop" => Action::Stop,
                    "fail" => Action::Fail,
                    other => panic!("BATON_FAULTS knows no action {other}"),
                };
                faults.arm(*point, action, nth.parse().expect("BATON_FAULTS counts from 1"));
            }
            faults
        }

        /// Strikes at the `nth` hit from now, counted from 1, once.
        pub fn arm(&self, point: Point, action: Action, nth: u32) {
            self.armed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(point, Armed { action, skip: nth.saturating_sub(1) });
        }

        /// Whether it has yet to strike.
        pub fn is_armed(&self, point: Point) -> bool {
            self.armed.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&point)
        }

        pub(super) async fn point(&self, point: Point) -> Result<(), Error> {
            match self.strike(point) {
                None => Ok(()),
                Some(Action::Kill) => {
                    let _ = kill(Pid::this(), Signal::SIGKILL);
                    std::future::pending().await
                }
                Some(Action::Stop) => {
                    // To this thread: one to the process may be taken by another, and this one would go on for a moment.
                    let _ = raise(Signal::SIGSTOP);
                    Ok(())
                }
                Some(Action::Pause(until)) => {
                    until.acquire().await.map_err(Error::internal)?.forget();
                    Ok(())
                }
                Some(Action::Fail) => Err(Error::internal("a fault point failed")),
            }
        }

        /// What was passed since this was asked last.
        pub fn take_passed(&self) -> Vec<Point> {
            std::mem::take(&mut self.passed.lock().unwrap_or_else(PoisonError::into_inner))
        }

        fn strike(&self, point: Point) -> Option<Action> {
            self.passed.lock().unwrap_or_else(PoisonError::into_inner).push(point);
            let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = armed.get_mut(&point)?;
            if entry.skip > 0 {
                entry.skip -= 1;
                return None;
            }
            armed.remove(&point).map(|entry| entry.action)
        }
    }
}
