//! What hangs on a run, as its log has it: calls, approvals, questions, artifacts; and whether the rows say the same.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::events::{CostSource, Decision, Event, TokenUsage};
use rust_decimal::Decimal;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

/// By run and identifier.
type Rows<T> = BTreeMap<(Uuid, Uuid), T>;

/// Everything that hangs on runs.
#[derive(Debug, Default)]
pub(super) struct Hanging {
    invocations: Rows<String>,
    approvals: Rows<(String, OffsetDateTime)>,
    questions: Rows<(String, OffsetDateTime)>,
    artifacts: BTreeSet<(Uuid, Uuid)>,
    model_calls: BTreeMap<Uuid, BTreeMap<(u32, u32), ModelCall>>,
    /// Runs whose providers need something back.
    continuations: BTreeSet<Uuid>,
}

/// A call of a model: who was asked, and what it is charged with.
#[derive(Debug, Clone, PartialEq)]
struct ModelCall {
    provider: String,
    model: String,
    usage: TokenUsage,
    cost_usd: Option<Decimal>,
    cost_source: CostSource,
    is_finished: bool,
}

impl Hanging {
    pub(super) async fn read(conn: &mut PgConnection) -> Self {
        let invocations: Vec<(Uuid, Uuid, String)> =
            sqlx::query_as("SELECT run_id, id, status FROM tool_invocations").fetch_all(&mut *conn).await.unwrap();
        let approvals: Vec<(Uuid, Uuid, String, OffsetDateTime)> =
            sqlx::query_as("SELECT run_id, id, status, expires_at FROM approvals").fetch_all(&mut *conn).await.unwrap();
        let questions: Vec<(Uuid, Uuid, String, OffsetDateTime)> =
            sqlx::query_as("SELECT run_id, id, status, expires_at FROM questions").fetch_all(&mut *conn).await.unwrap();
        let artifacts: Vec<(Uuid, Uuid)> =
            sqlx::query_as("SELECT run_id, id FROM artifacts").fetch_all(&mut *conn).await.unwrap();
        let continuations: Vec<(Uuid,)> =
            sqlx::query_as("SELECT DISTINCT run_id FROM provider_continuations").fetch_all(&mut *conn).await.unwrap();
        Self {
            model_calls: model_calls(&mut *conn).await,
            continuations: continuations.into_iter().map(|(run,)| run).collect(),
            invocations: invocations.into_iter().map(|(run, id, status)| ((run, id), status)).collect(),
            approvals: approvals.into_iter().map(|(run, id, status, at)| ((run, id), (status, at))).collect(),
            questions: questions.into_iter().map(|(run, id, status, at)| ((run, id), (status, at))).collect(),
            artifacts: artifacts.into_iter().collect(),
        }
    }

    /// Where the rows of a run are not what its events say.
    pub(super) fn differences(&self, run: Uuid, events: &[Event]) -> Vec<String> {
        let told = Told::of(events);
        let mut wrong = Vec::new();
        let statuses = of_run(&self.invocations, run);
        for (id, status) in &statuses {
            if told.calls.get(id) != Some(status) {
                wrong.push(format!("call {id} is {status}, the log says {:?}", told.calls.get(id)));
            }
        }
        // A call that was refused before the policy saw it has no row; every other has.
        let lost = told
            .calls
            .iter()
            .filter(|(id, status)| !statuses.contains_key(*id) && !["FAILED", "DENIED"].contains(&status.as_str()));
        wrong.extend(lost.map(|(id, status)| format!("call {id} has no row, the log says {status}")));
        for (what, rows, told) in
            [("approvals", &self.approvals, &told.approvals), ("questions", &self.questions, &told.questions)]
        {
            let rows = of_run(rows, run);
            if rows != *told {
                wrong.push(format!("{what}: the rows are {rows:?}, the log says {told:?}"));
            }
        }
        let artifacts: BTreeSet<Uuid> = self.artifacts.iter().filter(|(of, _)| *of == run).map(|(_, id)| *id).collect();
        if artifacts != told.artifacts {
            wrong.push(format!("artifacts: the rows are {artifacts:?}, the log says {:?}", told.artifacts));
        }
        let model_calls = self.model_calls.get(&run).cloned().unwrap_or_default();
        if model_calls != told.model_calls {
            wrong.push(format!("calls of models: the rows are {model_calls:?}, the log says {:?}", told.model_calls));
        }
        let is_over = events.iter().any(|event| event.event_type().is_terminal());
        if is_over && self.continuations.contains(&run) {
            wrong.push("what its provider needed back has outlived it".into());
        }
        wrong
    }
}

async fn model_calls(conn: &mut PgConnection) -> BTreeMap<Uuid, BTreeMap<(u32, u32), ModelCall>> {
    let rows = sqlx::query("SELECT * FROM model_calls").fetch_all(conn).await.unwrap();
    let mut calls: BTreeMap<Uuid, BTreeMap<(u32, u32), ModelCall>> = BTreeMap::new();
    for row in rows {
        let number = |column| u32::try_from(row.get::<i32, _>(column)).unwrap();
        let call = ModelCall {
            provider: row.get("provider"),
            model: row.get("model"),
            usage: TokenUsage {
                cache_write_input_tokens: row.get("cache_write_input_tokens"),
                cached_input_tokens: row.get("cached_input_tokens"),
                input_tokens: row.get("input_tokens"),
                output_tokens: row.get("output_tokens"),
                reasoning_tokens: row.get("reasoning_tokens"),
            },
            cost_usd: row.get::<Option<Decimal>, _>("cost_usd").map(|cost| cost.normalize()),
            cost_source: row.get::<String, _>("cost_source").parse().unwrap(),
            is_finished: row.get::<Option<OffsetDateTime>, _>("finished_at").is_some(),
        };
        calls.entry(row.get("run_id")).or_default().insert((number("step"), number("attempt")), call);
    }
    calls
}

fn of_run<T: Clone>(rows: &Rows<T>, run: Uuid) -> BTreeMap<Uuid, T> {
    rows.range((run, Uuid::nil())..=(run, Uuid::max())).map(|((_, id), row)| (*id, row.clone())).collect()
}

/// What a log says of the rows that belong to it.
#[derive(Debug, Default)]
struct Told {
    calls: BTreeMap<Uuid, String>,
    approvals: BTreeMap<Uuid, (String, OffsetDateTime)>,
    questions: BTreeMap<Uuid, (String, OffsetDateTime)>,
    artifacts: BTreeSet<Uuid>,
    /// By step and attempt, where the log says what was held for them.
    model_calls: BTreeMap<(u32, u32), ModelCall>,
    /// Calls that are on record, by the provider's identifier; a later turn may use it again.
    ids: BTreeMap<String, Uuid>,
}

impl Told {
    fn of(events: &[Event]) -> Self {
        let mut told = Self::default();
        events.iter().for_each(|event| told.apply(event));
        told
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::ModelRequestStarted(request) => {
                let Some(held) = request.held else { return };
                let call = ModelCall {
                    provider: request.provider.clone(),
                    model: request.model.clone(),
                    usage: TokenUsage {
                        input_tokens: held.input_tokens,
                        output_tokens: held.output_tokens,
                        ..TokenUsage::default()
                    },
                    cost_usd: held.cost_usd,
                    cost_source: if held.cost_usd.is_some() { CostSource::Held } else { CostSource::Unpriced },
                    is_finished: false,
                };
                self.model_calls.insert((request.step, request.attempt), call);
            }
            Event::ModelResponseCompleted(response) => {
                self.settle((response.step, response.attempt), Some(response.usage), response.cost_usd, response.cost_source);
            }
            Event::ModelResponseFailed(failed) => {
                self.settle((failed.step, failed.attempt), failed.usage, failed.cost_usd, failed.cost_source);
            }
            Event::ToolCallProposed(call) => {
                self.ids.insert(call.call_id.clone(), call.invocation_id);
                self.call(call.invocation_id, "PROPOSED");
            }
            Event::ToolCallAuthorized(call) => self.call(call.invocation_id, "AUTHORIZED"),
            Event::ToolCallStarted(call) => self.call(call.invocation_id, "RUNNING"),
            Event::ToolCallCompleted(call) => self.call(call.invocation_id, "COMPLETED"),
            Event::ToolCallFailed(call) if call.reason_code == "cancelled" => self.call(call.invocation_id, "CANCELLED"),
            Event::ToolCallFailed(call) => self.call(call.invocation_id, "FAILED"),
            Event::ToolCallDenied(call) => self.call(call.invocation_id, "DENIED"),
            Event::ToolCallUncertain(call) => self.call(call.invocation_id, "UNCERTAIN"),
            Event::ApprovalRequested(asked) => {
                self.approvals.insert(asked.approval_id, ("PENDING".into(), asked.expires_at));
                let id = self.ids[&asked.call_id];
                self.call(id, "WAITING");
            }
            Event::ApprovalResolved(resolved) => {
                let status = match resolved.decision {
                    Decision::ApproveOnce => "APPROVED",
                    Decision::Deny => "DENIED",
                    Decision::Expired => "EXPIRED",
                    Decision::Cancelled => "CANCELLED",
                };
                if let Some(approval) = self.approvals.get_mut(&resolved.approval_id) {
                    approval.0 = status.into();
                }
            }
            Event::RunWaitingForUser(asked) => {
                self.questions.insert(asked.question_id, ("OPEN".into(), asked.expires_at));
                let asking = self.calls.iter_mut().find(|(_, status)| *status == "RUNNING");
                *asking.expect("a call that asks").1 = "WAITING".into();
            }
            Event::UserInputDelivered(input) => self.close_question(input.question_id, "ANSWERED"),
            Event::ArtifactCreated(artifact) => {
                self.artifacts.insert(artifact.artifact_id);
            }
            Event::RunFailed(_) | Event::RunCancelled(_) | Event::RunCompleted(_) => self.end(event),
            _ => {}
        }
    }

    fn settle(
        &mut self,
        call: (u32, u32),
        usage: Option<TokenUsage>,
        cost_usd: Option<Decimal>,
        cost_source: Option<CostSource>,
    ) {
        if let (Some(call), Some(usage), Some(cost_source)) = (self.model_calls.get_mut(&call), usage, cost_source) {
            *call = ModelCall { usage, cost_usd, cost_source, is_finished: true, ..call.clone() };
        }
    }

    fn call(&mut self, id: Uuid, status: &str) {
        self.calls.insert(id, status.to_owned());
    }

    fn close_question(&mut self, id: Uuid, status: &str) {
        if let Some(question) = self.questions.get_mut(&id) {
            question.0 = status.into();
        }
    }

    /// Nothing is left open by a run that has ended.
    fn end(&mut self, event: &Event) {
        for status in
            self.calls.values_mut().filter(|status| ["PROPOSED", "WAITING", "AUTHORIZED", "RUNNING"].contains(&status.as_str()))
        {
            *status = "CANCELLED".into();
        }
        let is_late = matches!(event, Event::RunFailed(failed) if failed.failure.reason.as_str() == "input_deadline_exceeded");
        for question in self.questions.values_mut().filter(|question| question.0 == "OPEN") {
            question.0 = if is_late { "EXPIRED" } else { "CANCELLED" }.into();
        }
    }
}
