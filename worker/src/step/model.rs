//! Asking the model: attempts until there is a turn, each on record, and held for, before it is made.

use std::sync::Arc;
use std::time::Duration;

use baton_core::content::text_content;
use baton_core::events::{
    AssistantMessageCompleted, Event, Hold, ModelRequestStarted, ModelResponseCompleted, ModelResponseFailed, Stop,
};
use baton_core::execution::{Message, estimated_tokens};
use baton_core::fault::Point;
use baton_core::models::{CONTINUATION_BYTES_MAX, ModelRows, StartedCall};
use baton_core::runs::{FailureClass, FailureReason};
use rand::Rng;

use crate::choice::Choice;
use crate::control::StopReason;
use crate::models::{Failure, ModelError, ModelProvider, ModelRequest, Turn};
use crate::run_loop::{Flow, Outcome, RunContext, Trailing};
use crate::step::budget;
use crate::step::hearing::{Heard, hear};

/// Failed calls of a provider in one step. Those that a crash or a hand-back interrupted are not among them, or deploys would eat
/// them up.
const ATTEMPTS_MAX: u32 = 4;

/// Wait before the second attempt; doubled for each later one, with jitter.
const BACKOFF: Duration = Duration::from_millis(250);

/// The same where nobody was reached: a server that starts again takes some seconds.
const UNREACHED_BACKOFF: Duration = Duration::from_secs(1);

/// The longest wait that a provider may ask for: a run that waits keeps its slot.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// One call of a model, as it is on record before it is made.
pub(super) struct Attempt {
    pub(super) step: u32,
    /// From 1, within the step.
    pub(super) number: u32,
    pub(super) choice: Choice,
    pub(super) hold: Hold,
}

/// One turn of the model. With calls it is committed, and the calls are pending; without, the run has its outcome.
pub(crate) async fn ask_model(context: &mut RunContext<'_>) -> Flow<()> {
    loop {
        context.boundary()?;
        let attempt = next_attempt(context)?;
        let provider = attempt.choice.provider()?;
        begin(context, &attempt).await?;
        context.fault(Point::BeforeModel).await?;
        let mut heard = Heard::default();
        match ask(context, &*provider, &attempt, &mut heard).await {
            Ok(Ok(turn)) => {
                context.fault(Point::AfterModel).await?;
                return take_turn(context, &attempt, &heard, turn).await;
            }
            Ok(Err(failure)) => {
                let (kind, code) = (provider.name(), failure.error.code());
                tracing::info!(provider = attempt.choice.policy.provider, kind, code, "a call of a model failed");
                retry_or_fail(context, &attempt, &heard, failure).await?;
            }
            Err(reason) => return Err(interrupt(context, &attempt, &heard, reason).await?),
        }
    }
}

/// The step is that of the next turn; an attempt before it failed, or a crash interrupted it.
fn next_attempt(context: &RunContext<'_>) -> Flow<Attempt> {
    let (state, limits) = (&context.state, &context.limits);
    let step = state.turns + 1;
    if i64::from(step) > i64::from(limits.max_steps) {
        return Err(Outcome::failed(FailureReason::MaxStepsExceeded));
    }
    let choice = context.choices.of(&context.on_behalf.agent, state.pinned.as_ref())?;
    let hold = budget::hold(limits, &state.usage, &choice.policy, input_tokens(context))?;
    Ok(Attempt { step, number: if state.step == step { state.attempt + 1 } else { 1 }, choice, hold })
}

/// Of everything that is sent, by estimate.
fn input_tokens(context: &RunContext<'_>) -> i64 {
    let messages: usize = context.state.conversation.messages().iter().map(Message::bytes).sum();
    let handed_back: usize = context.continuations.values().map(|bytes| bytes.len()).sum();
    let bytes = messages + handed_back + context.on_behalf.agent.instructions.len() + context.offer.bytes;
    i64::try_from(estimated_tokens(bytes)).unwrap_or(i64::MAX)
}

async fn begin(context: &mut RunContext<'_>, attempt: &Attempt) -> Flow<()> {
    let (policy, hold) = (&attempt.choice.policy, attempt.hold);
    let started = Event::ModelRequestStarted(ModelRequestStarted {
        attempt: attempt.number,
        held: Some(hold),
        model: policy.model.clone(),
        provider: policy.provider.clone(),
        step: attempt.step,
    });
    let row = StartedCall {
        step: attempt.step,
        attempt: attempt.number,
        provider: policy.provider.clone(),
        model: policy.model.clone(),
        prices: policy.prices,
        input_tokens: hold.input_tokens,
        output_tokens: hold.output_tokens,
        cost_usd: hold.cost_usd,
    };
    context.append_model(vec![started], ModelRows { started: Some(Box::new(row)), ..ModelRows::default() }).await
}

/// Makes the call, once it is certain that the run is still ours. Dropping the stream aborts it.
async fn ask(
    context: &RunContext<'_>,
    provider: &dyn ModelProvider,
    attempt: &Attempt,
    heard: &mut Heard,
) -> Result<Result<Turn, Failure>, StopReason> {
    let answer = async {
        context.renewal.fresh().await;
        heard.is_asked = true;
        let stream = provider.stream(request(context, attempt));
        let turn = hear(context, stream, attempt, heard).await.inspect_err(|failure| heard.is_asked = !failure.is_unsent)?;
        if turn.continuation.as_ref().is_some_and(|bytes| bytes.len() > CONTINUATION_BYTES_MAX) {
            return Err(Failure { request_id: turn.request_id, ..ModelError::Protocol.into() });
        }
        Ok(turn)
    };
    tokio::select! {
        biased;
        reason = context.control.stopped() => Err(reason),
        answer = answer => Ok(answer),
    }
}

/// Built from the state alone.
fn request(context: &RunContext<'_>, attempt: &Attempt) -> ModelRequest {
    let state = &context.state;
    ModelRequest {
        agent: context.on_behalf.agent.clone(),
        tools: Arc::clone(&context.offer.tools),
        messages: state.conversation.messages().to_vec(),
        input: state.input.clone(),
        step: attempt.step,
        attempt: attempt.number,
        turn: state.turns,
        continuations: context.continuations.clone(),
        max_output_tokens: u32::try_from(attempt.hold.output_tokens).unwrap_or(attempt.choice.policy.max_output_tokens),
    }
}

/// Puts a turn on record. One without calls is the run's last, and is written with the end.
async fn take_turn(context: &mut RunContext<'_>, attempt: &Attempt, heard: &Heard, turn: Turn) -> Flow<()> {
    let (step, message_index) = (attempt.step, context.state.turns);
    let has_calls = !turn.tool_calls.is_empty();
    let charge = heard.charge(attempt);
    let message = (!turn.text.is_empty()).then(|| {
        Event::AssistantMessageCompleted(AssistantMessageCompleted {
            content: text_content(turn.text.clone()),
            message_index,
            step,
            truncated: turn.truncated || turn.stop.is_cut_off(),
        })
    });
    let response = Event::ModelResponseCompleted(ModelResponseCompleted {
        attempt: attempt.number,
        cost_source: Some(charge.cost_source),
        cost_usd: charge.cost_usd,
        message_index,
        step,
        stop: turn.stop,
        text: turn.text,
        tool_calls: turn.tool_calls,
        truncated: turn.truncated,
        usage: charge.usage,
    });
    let events: Vec<Event> = [response].into_iter().chain(message).collect();
    let settled = Some(Box::new(charge.row(attempt, turn.request_id)));
    if !has_calls {
        let model = ModelRows { settled, ..ModelRows::default() };
        return Err(Outcome::Completed { trailing: Trailing { events, model } });
    }
    let continuation = turn.continuation.map(|bytes| (step, bytes));
    context.append_model(events, ModelRows { settled, continuation, started: None }).await
}

/// A failed attempt is on record before the next; the last one is written with the end.
async fn retry_or_fail(context: &mut RunContext<'_>, attempt: &Attempt, heard: &Heard, failure: Failure) -> Flow<()> {
    let Failure { error, retry_after, request_id, is_unsent } = failure;
    // What a filter has taken away it would take away again, and whoever thinks up to the limit would think again.
    let has_reasoned_to_limit = error == ModelError::Empty && heard.stop == Some(Stop::MaxTokens);
    let is_retryable = error.is_retryable() && heard.stop != Some(Stop::ContentFilter) && !has_reasoned_to_limit;
    let trailing = failed(attempt, heard, error.code(), is_retryable, request_id);
    let failures = context.state.failed_attempts + 1;
    if !is_retryable || failures >= ATTEMPTS_MAX {
        let outcome = match error {
            ModelError::Transient if is_unsent => Outcome::failed_for(FailureClass::ProviderUnreached),
            ModelError::Transient => Outcome::failed_for(FailureClass::ProviderUnavailable),
            ModelError::Permanent => Outcome::failed_for(FailureClass::RequestRefused),
            ModelError::Credential => Outcome::failed_for(FailureClass::CredentialRefused),
            ModelError::Protocol => Outcome::failed(FailureReason::ModelProtocolError),
            ModelError::Empty if has_reasoned_to_limit => Outcome::failed_for(FailureClass::ReasonedToLimit),
            ModelError::Empty => Outcome::failed(FailureReason::EmptyModelTurn),
            ModelError::ContextOverflow => Outcome::failed(FailureReason::ContextOverflow),
        };
        return Err(outcome.with_trailing(trailing));
    }
    context.append_model(trailing.events, trailing.model).await?;
    let backoff = if is_unsent { UNREACHED_BACKOFF } else { BACKOFF };
    tokio::select! {
        biased;
        reason = context.control.stopped() => Err(reason.into()),
        () = tokio::time::sleep(wait(backoff, failures, retry_after, rand::rng().random_range(0.5..1.0))) => Ok(()),
    }
}

/// At least what the provider asked for, within reason; the run's deadline ends it all the same.
fn wait(backoff: Duration, failures: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
    let backoff = (backoff * 2_u32.pow(failures - 1)).mul_f64(jitter);
    backoff.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
}

/// A call that the run stopped waiting for is charged with what is known of it, not with all that was held.
async fn interrupt(context: &mut RunContext<'_>, attempt: &Attempt, heard: &Heard, reason: StopReason) -> Flow<Outcome> {
    if reason != StopReason::Fenced {
        let trailing = failed(attempt, heard, ModelResponseFailed::INTERRUPTED, true, None);
        context.append_model(trailing.events, trailing.model).await?;
    }
    Ok(reason.into())
}

fn failed(attempt: &Attempt, heard: &Heard, code: &str, retryable: bool, request_id: Option<String>) -> Trailing {
    let charge = heard.charge(attempt);
    let event = Event::ModelResponseFailed(ModelResponseFailed {
        attempt: attempt.number,
        code: code.to_owned(),
        cost_source: Some(charge.cost_source),
        cost_usd: charge.cost_usd,
        retryable,
        step: attempt.step,
        usage: Some(charge.usage),
    });
    let model = ModelRows { settled: Some(Box::new(charge.row(attempt, request_id))), ..ModelRows::default() };
    Trailing { events: vec![event], model }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_at_least_what_the_provider_asked_for_within_reason() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (failures, retry_after, expected) in [
            (1, None, Duration::from_millis(250)),
            (3, None, Duration::from_secs(1)),
            (1, seconds(7), Duration::from_secs(7)),
            (3, seconds(0), Duration::from_secs(1)),
            (1, seconds(3_600), RETRY_AFTER_MAX),
        ] {
            assert_eq!(wait(BACKOFF, failures, retry_after, 1.0), expected, "{failures} {retry_after:?}");
        }
    }
}
