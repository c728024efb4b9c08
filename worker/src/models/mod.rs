//! Models: whoever answers a conversation. One trait, one normalized stream, one check of it, one assembler.
//!
//! `remote` asks a server, at which we have an `account`: `transport` sends what one of `openai_chat`, `openai_responses` and
//! `anthropic` has written, `reading` takes the answer apart with `sse` and `json`, the same module understands it, `outgoing` puts
//! it in order, and `sealed` keeps what has to be handed back.

mod account;
mod anthropic;
mod assemble;
mod checked;
mod failure;
mod json;
mod openai_chat;
mod openai_responses;
mod outgoing;
mod probe;
mod reading;
mod remote;
mod scripted;
mod sealed;
mod sse;
mod think;
mod tool_names;
mod transport;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use baton_core::agents::AgentDefinition;
use baton_core::content::ContentBlock;
use baton_core::events::{Stop, TokenUsage};
use baton_core::execution::Message;
use baton_core::models::{Policies, Policy};
use baton_core::tools::ToolSpec;
use baton_core::{Code, Error};
use futures::Stream;

use account::Accounts;
pub(crate) use assemble::{Assembler, Turn};
pub use probe::probe;

/// What a model is asked. Built from the run's state alone: two builds of one state are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelRequest {
    pub(crate) agent: Arc<AgentDefinition>,
    /// What it may call.
    pub(crate) tools: Arc<[ToolSpec]>,
    pub(crate) messages: Vec<Message>,
    /// What the user said to begin this run.
    pub(crate) input: Vec<ContentBlock>,
    pub(crate) step: u32,
    pub(crate) attempt: u32,
    /// Turns that the model has completed in this run.
    pub(crate) turn: u32,
    /// What the provider gave to be handed back, by the step of the turn that it came with.
    pub(crate) continuations: BTreeMap<u32, Continuation>,
    /// Tokens of the answer at most.
    pub(crate) max_output_tokens: u32,
}

impl ModelRequest {
    /// Each message with what its provider needs back. The run's own turns are the last ones of the conversation.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (&Message, Option<&Continuation>)> {
        let is_turn = |message: &Message| matches!(message, Message::Assistant { .. });
        let turns = self.messages.iter().filter(|message| is_turn(message)).count() as u32;
        let mut seen = 0;
        self.messages.iter().map(move |message| {
            seen += u32::from(is_turn(message));
            let step = (seen + self.turn).checked_sub(turns).filter(|step| is_turn(message) && *step > 0);
            (message, step.and_then(|step| self.continuations.get(&step)))
        })
    }
}

/// What a provider needs back with the next request, as it came: signed thinking, encrypted reasoning. Opaque, and for that provider
/// and run alone.
pub(crate) type Continuation = Arc<[u8]>;

/// The normalized stream. Exactly one of the last two ends it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ModelEvent {
    ReasoningDelta(String),
    TextDelta(String),
    /// A piece of the call at this index of the turn. Every piece knows its call.
    ToolCallDelta {
        index: u32,
        call_id: String,
        name: String,
        arguments: String,
    },
    Completed(Completion),
    Failed(Failure),
}

/// The end of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Completion {
    pub(crate) stop: Stop,
    /// Only this usage counts. None: the provider did not say.
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) continuation: Option<Continuation>,
    /// The provider's name for the call, for whoever asks it about one.
    pub(crate) request_id: Option<String>,
}

/// The end of a call that was no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    /// What the provider asked us to wait, as it said it.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) request_id: Option<String>,
    /// Nothing has left this machine.
    pub(crate) is_unsent: bool,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, retry_after: None, request_id: None, is_unsent: false }
    }
}

/// Why a model did not answer. Never the provider's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelError {
    /// May go away by itself: overload, a broken connection, a time-out.
    Transient,
    /// The same request will fail again.
    Permanent,
    /// So will every other: the key is of no use until somebody repairs it, or pays.
    Credential,
    /// The answer was not understood.
    Protocol,
    /// Neither text nor a call.
    Empty,
    /// The request is longer than the model can read.
    ContextOverflow,
}

impl ModelError {
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Transient => Code::ModelTransientError.as_str(),
            Self::Permanent | Self::Credential => Code::ModelPermanentError.as_str(),
            Self::Protocol => Code::ModelProtocolError.as_str(),
            Self::Empty => "empty_model_turn",
            Self::ContextOverflow => Code::ContextOverflow.as_str(),
        }
    }

    pub(crate) const fn is_retryable(self) -> bool {
        !matches!(self, Self::Permanent | Self::Credential | Self::ContextOverflow)
    }
}

pub(crate) type ModelStream = Pin<Box<dyn Stream<Item = ModelEvent> + Send>>;

/// A provider. Dropping its stream aborts the call. One that waits for a server ends it when that has been silent for too long.
pub(crate) trait ModelProvider: std::fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Whether it has just refused our credential, and is not to be asked.
    fn is_barred(&self) -> bool {
        false
    }

    /// What the provider makes of its answer. Nobody but `stream` takes it.
    fn answer(&self, request: ModelRequest) -> ModelStream;

    fn stream(&self, request: ModelRequest) -> ModelStream {
        Box::pin(checked::checked(self.answer(request)))
    }
}

/// Who answers under a policy. None: nobody in this process, which has no key for it.
pub(crate) type Answering = Option<Arc<dyn ModelProvider>>;

/// Every policy, and who answers under it.
///
/// # Errors
/// `Internal` where the machine has no random numbers or no TLS.
pub(crate) fn providers_of(policies: &Policies) -> Result<Vec<(Policy, Answering)>, Error> {
    let mut accounts = Accounts::default();
    let mut answering = |policy: &Policy| -> Result<Answering, Error> {
        let Some(endpoint) = &policy.endpoint else { return Ok(Some(Arc::new(scripted::Scripted))) };
        let Some(account) = accounts.of(&policy.provider, endpoint)? else { return Ok(None) };
        let (model, temperature) = (policy.model.clone(), policy.temperature);
        Ok(Some(Arc::new(remote::Remote { account, model, temperature })))
    };
    policies.all().map(|policy| Ok((policy.clone(), answering(policy)?))).collect()
}

#[cfg(test)]
mod tests;
