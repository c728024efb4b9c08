//! Asking the model: attempts until there is a turn, each on record before it is made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_core::content::text_content;
use baton_core::events::{
    AssistantMessageCompleted, Event, ModelRequestStarted, ModelResponseCompleted, ModelResponseFailed, Stop,
};
use baton_core::fault::Point;
use baton_core::notify::{Delta, DeltaKind, Hint};
use baton_core::runs::FailureReason;
use futures::StreamExt;
use rand::Rng;

use crate::models::{Assembler, Failure, ModelError, ModelEvent, ModelProvider, ModelRequest, Turn, provider_of};
use crate::run_loop::{Flow, Outcome, RunContext};

/// Failed calls of a provider in one step. Those that a crash or a hand-back interrupted are not among them, or deploys would eat
/// them up.
const ATTEMPTS_MAX: u32 = 4;

/// Wait before the second attempt; doubled for each later one, with jitter.
const BACKOFF: Duration = Duration::from_millis(250);

/// Tokens of an answer at most, where no policy says.
const MAX_OUTPUT_TOKENS: u32 = 4_096;

/// Longest wait for a whole answer, and between two pieces of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);

/// One turn of the model. With calls it is committed, and the calls are pending; without, the run has its outcome.
pub(crate) async fn ask_model(context: &mut RunContext<'_>) -> Flow<()> {
    loop {
        context.boundary()?;
        let (step, attempt) = next_attempt(context)?;
        let Some((provider, model)) = provider_of(&context.on_behalf.agent) else {
            return Err(Outcome::failed(FailureReason::ModelPermanentError));
        };
        let (provider_name, model) = (provider.name().to_owned(), model.to_owned());
        context
            .append(vec![Event::ModelRequestStarted(ModelRequestStarted { attempt, model, provider: provider_name, step })])
            .await?;
        context.fault(Point::BeforeModel).await?;
        context.certainly_ours().await?;
        match ask(context, provider, step, attempt).await? {
            Ok(turn) => {
                context.fault(Point::AfterModel).await?;
                return take_turn(context, turn, step, attempt).await;
            }
            Err(failure) => retry_or_fail(context, failure.error, step, attempt).await?,
        }
    }
}

/// The step is that of the next turn; an attempt before it failed, or a crash interrupted it.
fn next_attempt(context: &RunContext<'_>) -> Flow<(u32, u32)> {
    let (state, limits) = (&context.state, &context.limits);
    let step = state.turns + 1;
    if i64::from(step) > i64::from(limits.max_steps) {
        return Err(Outcome::failed(FailureReason::MaxStepsExceeded));
    }
    if state.usage.model_calls >= limits.max_model_calls {
        return Err(Outcome::failed(FailureReason::BudgetExceeded));
    }
    Ok((step, if state.step == step { state.attempt + 1 } else { 1 }))
}

/// Streams one answer, sending its pieces on as they come.
async fn ask(context: &RunContext<'_>, provider: &dyn ModelProvider, step: u32, attempt: u32) -> Flow<Result<Turn, Failure>> {
    let state = &context.state;
    let mut stream = provider.stream(ModelRequest {
        agent: context.on_behalf.agent.clone(),
        tools: Arc::default(),
        messages: state.conversation.messages().to_vec(),
        input: state.input.clone(),
        step,
        attempt,
        turn: state.turns,
        continuations: BTreeMap::new(),
        max_output_tokens: MAX_OUTPUT_TOKENS,
    });
    let mut assembler = Assembler::default();
    let mut live = Live { message: 0, reasoning: 0 };
    let answer = async {
        loop {
            let Ok(Some(event)) = tokio::time::timeout(PIECE_TIMEOUT, stream.next()).await else {
                return Err(ModelError::Transient.into()); // cut off, or silent
            };
            live.send(context, &event, step, attempt);
            if let Some(turn) = assembler.take(event) {
                return turn;
            }
        }
    };
    tokio::select! {
        biased;
        reason = context.control.stopped() => Err(reason.into()), // dropping the stream aborts the call
        answer = tokio::time::timeout(ANSWER_TIMEOUT, answer) => Ok(answer.unwrap_or(Err(ModelError::Transient.into()))),
    }
}

/// How far the texts of this attempt have been sent, in UTF-16 code units.
struct Live {
    message: usize,
    reasoning: usize,
}

impl Live {
    fn send(&mut self, context: &RunContext<'_>, event: &ModelEvent, step: u32, attempt: u32) {
        let (kind, text, offset) = match event {
            ModelEvent::TextDelta(text) => (DeltaKind::Message, text, &mut self.message),
            ModelEvent::ReasoningDelta(text) => (DeltaKind::Reasoning, text, &mut self.reasoning),
            _ => return,
        };
        context.notifier.send([Hint::Live(Delta {
            session_id: context.lease.session_id(),
            run_id: context.lease.run_id(),
            step,
            attempt,
            message_index: context.state.turns,
            kind,
            offset: *offset,
            text: text.clone(),
        })]);
        *offset += text.encode_utf16().count();
    }
}

/// Puts a turn on record. One without calls is the run's last, and is written with the end.
async fn take_turn(context: &mut RunContext<'_>, turn: Turn, step: u32, attempt: u32) -> Flow<()> {
    let message_index = context.state.turns;
    let cut_off = turn.stop == Stop::MaxTokens;
    let has_calls = !turn.tool_calls.is_empty();
    let message = (!turn.text.is_empty()).then(|| {
        Event::AssistantMessageCompleted(AssistantMessageCompleted {
            content: text_content(turn.text.clone()),
            message_index,
            step,
            truncated: turn.truncated || cut_off,
        })
    });
    let response = Event::ModelResponseCompleted(ModelResponseCompleted {
        attempt,
        cost_usd: None, // the scripted model has no price
        message_index,
        step,
        stop: turn.stop,
        text: turn.text,
        tool_calls: turn.tool_calls,
        truncated: turn.truncated,
        usage: turn.usage.unwrap_or_default(),
    });
    let events: Vec<Event> = [response].into_iter().chain(message).collect();
    if !has_calls {
        return Err(Outcome::Completed { trailing: events });
    }
    context.append(events).await
}

/// A failed attempt is on record before the next; the last one is written with the end.
async fn retry_or_fail(context: &mut RunContext<'_>, error: ModelError, step: u32, attempt: u32) -> Flow<()> {
    let failed = Event::ModelResponseFailed(ModelResponseFailed {
        attempt,
        code: error.code().to_owned(),
        retryable: error.is_retryable(),
        step,
    });
    let failures = context.state.failed_attempts + 1;
    if !error.is_retryable() || failures >= ATTEMPTS_MAX {
        let reason = match error {
            ModelError::Transient | ModelError::Permanent => FailureReason::ModelPermanentError,
            ModelError::Protocol => FailureReason::ModelProtocolError,
            ModelError::Empty => FailureReason::EmptyModelTurn,
            ModelError::ContextOverflow => FailureReason::ContextOverflow,
        };
        return Err(Outcome::Failed { reason, class: None, trailing: vec![failed] });
    }
    context.append(vec![failed]).await?;
    let wait = (BACKOFF * 2_u32.pow(failures - 1)).mul_f64(rand::rng().random_range(0.5..1.0));
    tokio::select! {
        biased;
        reason = context.control.stopped() => Err(reason.into()),
        () = tokio::time::sleep(wait) => Ok(()),
    }
}
