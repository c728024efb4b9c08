//! A run as the statements that read one select it, and the view that this becomes.

use rust_decimal::Decimal;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::Error;
use crate::runs::failure::Failure;
use crate::runs::usage::Usage;
use crate::runs::view::{CancelView, LimitsView, RunView, WaitingFor};

pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) session_id: Uuid,
    pub(super) parent_run_id: Option<Uuid>,
    pub(super) agent_id: String,
    pub(super) agent_version: String,
    pub(super) status: String,
    pub(super) priority: String,
    pub(super) metadata: String,
    pub(super) step_count: i32,
    pub(super) input_tokens: i64,
    pub(super) cached_input_tokens: i64,
    pub(super) cache_write_input_tokens: i64,
    pub(super) output_tokens: i64,
    pub(super) reasoning_tokens: i64,
    pub(super) model_calls: i32,
    pub(super) tool_calls: i32,
    pub(super) cost_usd: Option<Decimal>,
    pub(super) max_steps: i32,
    pub(super) max_model_calls: i32,
    pub(super) max_tool_calls: i32,
    pub(super) max_input_tokens: Option<i64>,
    pub(super) max_output_tokens: Option<i64>,
    pub(super) max_cost_usd: Option<Decimal>,
    pub(super) deadline_at: OffsetDateTime,
    pub(super) failure_reason: Option<String>,
    pub(super) failure_message: Option<String>,
    pub(super) failure_step: Option<i32>,
    pub(super) cancel_requested_at: Option<OffsetDateTime>,
    pub(super) cancel_observed_at: Option<OffsetDateTime>,
    pub(super) created_at: OffsetDateTime,
    pub(super) started_at: Option<OffsetDateTime>,
    pub(super) finished_at: Option<OffsetDateTime>,
    pub(super) updated_at: OffsetDateTime,
    pub(super) approval_ids: Option<Vec<Uuid>>,
    pub(super) question_id: Option<Uuid>,
    pub(super) question: Option<String>,
    pub(super) choices: Option<String>,
    pub(super) question_expires_at: Option<OffsetDateTime>,
}

impl Row {
    pub(super) fn into_view(self) -> Result<RunView, Error> {
        Ok(RunView {
            failure: self.failure()?,
            waiting_for: self.waiting_for()?,
            cancel: self.cancel_requested_at.map(|requested_at| CancelView {
                requested_at,
                observed_at: self.cancel_observed_at,
                settled_at: self.finished_at,
            }),
            usage: Usage {
                cache_write_input_tokens: self.cache_write_input_tokens,
                cached_input_tokens: self.cached_input_tokens,
                cost_usd: self.cost_usd.map(|cost| cost.normalize()),
                input_tokens: self.input_tokens,
                model_calls: self.model_calls,
                output_tokens: self.output_tokens,
                reasoning_tokens: self.reasoning_tokens,
                tool_calls: self.tool_calls,
            },
            limits: LimitsView {
                max_steps: self.max_steps,
                max_model_calls: self.max_model_calls,
                max_tool_calls: self.max_tool_calls,
                max_input_tokens: self.max_input_tokens,
                max_output_tokens: self.max_output_tokens,
                max_cost_usd: self.max_cost_usd.map(|cost| cost.normalize()),
                deadline_at: self.deadline_at,
            },
            id: self.id,
            session_id: self.session_id,
            parent_run_id: self.parent_run_id,
            agent_id: self.agent_id,
            agent_version: self.agent_version,
            status: self.status.parse().map_err(Error::internal)?,
            priority: self.priority.parse().map_err(Error::internal)?,
            metadata: RawValue::from_string(self.metadata).map_err(Error::internal)?,
            step_count: self.step_count,
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            updated_at: self.updated_at,
        })
    }

    /// The schema's CHECKs: a reason exactly where the run failed, and then an end.
    fn failure(&self) -> Result<Option<Failure>, Error> {
        let (Some(reason), Some(occurred_at)) = (&self.failure_reason, self.finished_at) else { return Ok(None) };
        Ok(Some(Failure {
            message: self.failure_message.clone().unwrap_or_default(),
            occurred_at,
            reason: reason.parse().map_err(Error::internal)?,
            step: self.failure_step.and_then(|step| u32::try_from(step).ok()),
        }))
    }

    /// Approvals or a question, as the statements select them: by the run's status.
    fn waiting_for(&self) -> Result<Option<WaitingFor>, Error> {
        if let Some(approval_ids) = &self.approval_ids {
            return Ok(Some(WaitingFor::Approval { approval_ids: approval_ids.clone() }));
        }
        let (Some(question_id), Some(question), Some(expires_at)) = (self.question_id, &self.question, self.question_expires_at)
        else {
            return Ok(None);
        };
        let choices = self.choices.as_deref().map(serde_json::from_str).transpose().map_err(Error::internal)?;
        Ok(Some(WaitingFor::User { question_id, question: question.clone(), choices, expires_at }))
    }
}
