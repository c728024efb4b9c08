//! What a caller asks of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::content::{self, ContentBlock};
use crate::error::{Error, Problem};
use crate::json_object;
use crate::runs::limits::LimitWishes;
use crate::runs::status::{Priority, RunStatus};
use crate::schema;

/// A message for a session, which becomes a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitMessage {
    #[schema(min_items = 1, max_items = 32)]
    pub content: Vec<ContentBlock>,
    #[serde(default)]
    pub limits: LimitWishes,
    #[serde(default = "interactive")]
    #[schema(schema_with = schema::wished_priority)]
    pub priority: Priority,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// The submitter's trace, so that the worker's spans join it; not part of the body.
    #[serde(skip)]
    pub traceparent: Option<String>,
}

const fn interactive() -> Priority {
    Priority::Interactive
}

impl SubmitMessage {
    /// A message of one block of text, with everything else as the agent has it.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: content::text_content(text),
            limits: LimitWishes::default(),
            priority: interactive(),
            metadata: Map::new(),
            traceparent: None,
        }
    }

    /// Everything that is wrong with it, at once; else the canonical text of its metadata.
    pub(super) fn validate(&self) -> Result<String, Error> {
        let mut problems = content::problems(&self.content);
        problems.extend(self.limits.problems());
        if self.priority == Priority::Maintenance {
            problems.push(Problem { path: "/priority".into(), message: "INTERACTIVE or ASYNC".into() });
        }
        let metadata = json_object::metadata_text(&self.metadata).map_err(|problem| problems.push(problem));
        match metadata {
            Ok(metadata) if problems.is_empty() => Ok(metadata),
            _ => Err(Error::Malformed(problems)),
        }
    }
}

/// An answer of the user to what a run has asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliverInput {
    #[schema(min_items = 1, max_items = 32)]
    pub content: Vec<ContentBlock>,
    /// None: the newest question of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_id: Option<Uuid>,
}

/// The answer to a submission, or to the delivery of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Submitted {
    pub run_id: Uuid,
    pub session_id: Uuid,
    pub status: RunStatus,
    /// The key was known: this is what it had created, as it is now.
    #[serde(skip)]
    pub replayed: bool,
}

/// The first characters of the first text of a message, white space folded: the title of its session.
pub(super) fn title_of(content: &[ContentBlock]) -> Option<String> {
    const TITLE_CHARS_MAX: usize = 64; // the schema's CHECK says the same
    let ContentBlock::Text { text } = content.first()?;
    let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let title: String = folded.chars().filter(|character| !character.is_control()).take(TITLE_CHARS_MAX).collect();
    (!title.is_empty()).then_some(title)
}
