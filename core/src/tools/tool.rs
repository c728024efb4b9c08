//! The contract of a tool: what it is given, and what it may answer.

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::artifacts::{ArtifactWriter, NewArtifact};
use crate::clock::Clock;
use crate::fault::{Faults, Point};
use crate::tools::failure::ReasonCode;
use crate::tools::spec::ToolSpec;

/// Something that an agent may do. Called by the pipeline alone, which has checked everything that can be checked before.
pub trait Tool: std::fmt::Debug + Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// `arguments` fit the input schema; they are what was authorized, byte for byte. The future may be dropped at any time
    /// before [`ToolContext::mark_effect_sent`] has returned; afterwards only when its time is over or the lease is lost.
    ///
    /// # Errors
    /// After a mark any reason but `Unknown` says for certain that nothing was done; a tool that is not certain says `Unknown`.
    fn call<'a>(&'a self, arguments: &'a Value, context: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>>;
}

/// What a tool is given beside its arguments.
#[derive(Debug)]
pub struct ToolContext<'a> {
    pub clock: &'a Clock,
    /// The same at every attempt of this call, and of no other: for services that take one.
    pub idempotency_key: &'a str,
    /// Where the call may put bytes.
    pub artifacts: &'a ArtifactWriter,
    pub faults: &'a Faults,
    pub(super) marks: mpsc::Sender<oneshot::Sender<()>>,
}

impl ToolContext<'_> {
    /// To be called immediately before the tool does what leaves a mark outside. When it returns, that this may happen is on
    /// record: from then on nobody repeats the call unless its class allows it.
    ///
    /// # Errors
    /// It could not be put on record, or the run has been stopped: nothing may be sent.
    pub async fn mark_effect_sent(&self) -> Result<(), ReasonCode> {
        let (answer, marked) = oneshot::channel();
        self.marks.send(answer).await.map_err(|_| ReasonCode::Cancelled)?;
        marked.await.map_err(|_| ReasonCode::Cancelled)?;
        self.faults.hit(Point::EffectMarked).await.map_err(|_| ReasonCode::ToolExecutionError)
    }
}

/// What a tool answers when it succeeds.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolAnswer {
    Result {
        value: Value,
        /// Bytes that the call has stored; their row is written with the result.
        artifact: Option<NewArtifact>,
    },
    /// Of a control tool: the run waits for its user, whose answer becomes the result.
    Ask(Question),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub question: String,
    /// Suggestions; any text is an answer.
    pub choices: Option<Vec<String>>,
}

impl ToolAnswer {
    pub fn value(value: Value) -> Self {
        Self::Result { value, artifact: None }
    }
}

/// A text among the arguments. The schema requires it, so that its absence is a mistake in the schema.
pub(super) fn text_argument<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, ReasonCode> {
    arguments.get(name).and_then(Value::as_str).ok_or(ReasonCode::InvalidArguments)
}
