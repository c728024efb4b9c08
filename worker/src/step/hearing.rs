//! Hearing an answer: its pieces go on to whoever watches as they come, and what it costs is known by what was heard.

use std::time::Duration;

use baton_core::events::{CostSource, Stop, TokenUsage};
use baton_core::execution::estimated_tokens;
use baton_core::models::SettledCall;
use baton_core::notify::{Delta, DeltaKind, Hint};
use futures::StreamExt;
use rust_decimal::Decimal;

use crate::models::{Assembler, Failure, ModelError, ModelEvent, ModelStream, Turn};
use crate::run_loop::RunContext;
use crate::step::model::Attempt;

/// Longest wait for a whole answer. Whether one is still being given its provider knows better: it hears what is no piece of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Characters of a provider's name for a call; the schema's CHECK says the same. Longer is not one.
const REQUEST_ID_CHARS_MAX: usize = 255;

/// What is known of a call, however it ends.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// It was made.
    pub(super) is_asked: bool,
    /// Of text, reasoning and arguments.
    bytes: usize,
    /// As the provider counted, where it came to that.
    usage: Option<TokenUsage>,
    pub(super) stop: Option<Stop>,
}

/// What a call is charged with.
pub(super) struct Charge {
    pub(super) usage: TokenUsage,
    pub(super) cost_usd: Option<Decimal>,
    pub(super) cost_source: CostSource,
}

/// Everything until the answer's end, or to its time-out.
pub(super) async fn hear(
    context: &RunContext<'_>,
    mut stream: ModelStream,
    attempt: &Attempt,
    heard: &mut Heard,
) -> Result<Turn, Failure> {
    let mut assembler = Assembler::default();
    let mut live = Live { message: 0, reasoning: 0 };
    let answer = async {
        while let Some(event) = stream.next().await {
            live.send(context, &event, attempt);
            heard.note(&event);
            if let Some(turn) = assembler.take(event) {
                return turn;
            }
        }
        Err(ModelError::Transient.into()) // cut off
    };
    tokio::time::timeout(ANSWER_TIMEOUT, answer).await.unwrap_or(Err(ModelError::Transient.into()))
}

impl Heard {
    fn note(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::ReasoningDelta(text) | ModelEvent::TextDelta(text) => self.bytes += text.len(),
            ModelEvent::ToolCallDelta { arguments, .. } => self.bytes += arguments.len(),
            ModelEvent::Completed(completion) => (self.usage, self.stop) = (completion.usage, Some(completion.stop)),
            ModelEvent::Failed(_) => {}
        }
    }

    /// By the provider's count; without one, by what was sent and received.
    pub(super) fn charge(&self, attempt: &Attempt) -> Charge {
        let estimate = || TokenUsage {
            input_tokens: if self.is_asked { attempt.hold.input_tokens } else { 0 },
            // No provider writes more than it was allowed to; what it sends beside tokens is none.
            output_tokens: i64::try_from(estimated_tokens(self.bytes)).unwrap_or(i64::MAX).min(attempt.hold.output_tokens),
            ..TokenUsage::default()
        };
        let usage = self.usage.map_or_else(estimate, without_negatives);
        let prices = attempt.choice.policy.prices;
        let cost_source = match (prices, self.usage) {
            (None, _) => CostSource::Unpriced,
            (Some(_), Some(_)) => CostSource::Reported,
            (Some(_), None) => CostSource::Estimated,
        };
        Charge { usage, cost_usd: prices.map(|prices| prices.cost(&usage)), cost_source }
    }
}

/// A provider's nonsense must not give anything back.
fn without_negatives(usage: TokenUsage) -> TokenUsage {
    TokenUsage {
        cache_write_input_tokens: usage.cache_write_input_tokens.max(0),
        cached_input_tokens: usage.cached_input_tokens.max(0),
        input_tokens: usage.input_tokens.max(0),
        output_tokens: usage.output_tokens.max(0),
        reasoning_tokens: usage.reasoning_tokens.max(0),
    }
}

impl Charge {
    pub(super) fn row(&self, attempt: &Attempt, request_id: Option<String>) -> SettledCall {
        let is_name = |id: &String| id.chars().count() <= REQUEST_ID_CHARS_MAX && !id.contains(char::is_control);
        SettledCall {
            step: attempt.step,
            attempt: attempt.number,
            usage: self.usage,
            cost_usd: self.cost_usd,
            cost_source: self.cost_source,
            provider_request_id: request_id.filter(is_name),
        }
    }
}

/// How far the texts of this attempt have been sent, in UTF-16 code units.
struct Live {
    message: usize,
    reasoning: usize,
}

impl Live {
    fn send(&mut self, context: &RunContext<'_>, event: &ModelEvent, attempt: &Attempt) {
        let (kind, text, offset) = match event {
            ModelEvent::TextDelta(text) => (DeltaKind::Message, text, &mut self.message),
            ModelEvent::ReasoningDelta(text) => (DeltaKind::Reasoning, text, &mut self.reasoning),
            _ => return,
        };
        context.notifier.send([Hint::Live(Delta {
            session_id: context.lease.session_id(),
            run_id: context.lease.run_id(),
            step: attempt.step,
            attempt: attempt.number,
            message_index: context.state.turns,
            kind,
            offset: *offset,
            text: text.clone(),
        })]);
        *offset += text.encode_utf16().count();
    }
}
