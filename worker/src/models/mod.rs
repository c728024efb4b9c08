//! Models: whoever answers a conversation. One trait, one normalized stream, one assembler.

mod assemble;
mod scripted;

use std::pin::Pin;
use std::sync::Arc;

use baton_core::Code;
use baton_core::agents::{AgentDefinition, SCRIPTED};
use baton_core::content::ContentBlock;
use baton_core::events::{Stop, TokenUsage};
use baton_core::execution::Message;
use futures::Stream;

pub(crate) use assemble::{Assembler, Turn};

/// What a model is asked. Built from the run's state alone: two builds of one state are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelRequest {
    pub(crate) agent: Arc<AgentDefinition>,
    pub(crate) messages: Vec<Message>,
    /// What the user said to begin this run.
    pub(crate) input: Vec<ContentBlock>,
    pub(crate) step: u32,
    pub(crate) attempt: u32,
    /// Turns that the model has completed in this run.
    pub(crate) turn: u32,
}

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
    /// Only this usage counts.
    Completed {
        stop: Stop,
        usage: TokenUsage,
    },
    Failed(ModelError),
}

/// Why a model did not answer. Never the provider's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelError {
    /// May go away by itself: overload, a broken connection, a time-out.
    Transient,
    /// The same request will fail again.
    Permanent,
    /// The answer was not understood.
    Protocol,
    /// Neither text nor a call.
    Empty,
}

impl ModelError {
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Transient => Code::ModelTransientError.as_str(),
            Self::Permanent => Code::ModelPermanentError.as_str(),
            Self::Protocol => Code::ModelProtocolError.as_str(),
            Self::Empty => "empty_model_turn",
        }
    }

    pub(crate) const fn is_retryable(self) -> bool {
        !matches!(self, Self::Permanent)
    }
}

pub(crate) type ModelStream = Pin<Box<dyn Stream<Item = ModelEvent> + Send>>;

/// A provider. Dropping its stream aborts the call.
pub(crate) trait ModelProvider: std::fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    fn stream(&self, request: ModelRequest) -> ModelStream;
}

/// The provider of an agent's model policy, and the model's name there.
pub(crate) fn provider_of(agent: &AgentDefinition) -> Option<(&'static dyn ModelProvider, &str)> {
    (agent.model == SCRIPTED).then_some((&scripted::Scripted as &dyn ModelProvider, SCRIPTED))
}
