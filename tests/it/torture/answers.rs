//! What people decided and answered, in the end: what they were told stands, once, and nothing was decided too late.

use std::collections::HashMap;

use baton_core::content::ContentBlock;
use baton_core::events::Event;
use sqlx::PgPool;
use uuid::Uuid;

use super::facts::{Decided, Facts};

/// What must be nobody's, whatever anybody was told.
const NEVER: &[(&str, &str)] = &[
    (
        "an approval was decided after its time",
        "SELECT id FROM approvals WHERE status IN ('APPROVED', 'DENIED') AND resolved_at >= expires_at",
    ),
    ("an approval expired before its time", "SELECT id FROM approvals WHERE status = 'EXPIRED' AND resolved_at <= expires_at"),
    (
        "a person decided nothing, or nobody decided something",
        "SELECT id FROM approvals WHERE (status IN ('APPROVED', 'DENIED')) <> (resolved_by IS NOT NULL)",
    ),
    ("an approval is open", "SELECT id FROM approvals WHERE status = 'PENDING'"),
    ("a question was answered after its time", "SELECT id FROM questions WHERE status = 'ANSWERED' AND closed_at >= expires_at"),
    ("a question is open", "SELECT id FROM questions WHERE status = 'OPEN'"),
    (
        "an effect was made without its approval",
        "SELECT i.id FROM tool_invocations i JOIN approvals a ON a.invocation_id = i.id
         WHERE a.status <> 'APPROVED' AND (i.effect_sent_at IS NOT NULL OR i.status IN ('COMPLETED', 'FAILED', 'UNCERTAIN'))",
    ),
];

/// Everything that is wrong.
pub(super) async fn check(pool: &PgPool, facts: &Facts, logs: &HashMap<Uuid, Vec<(i64, Event)>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, query) in NEVER {
        let ids: Vec<Uuid> = sqlx::query_scalar(*query).fetch_all(pool).await.unwrap();
        wrong.extend(ids.iter().map(|id| format!("{what}: {id}")));
    }
    let approvals: Vec<(Uuid, String, Option<String>)> =
        sqlx::query_as("SELECT id, status, resolved_by FROM approvals").fetch_all(pool).await.unwrap();
    let approvals: HashMap<Uuid, (String, Option<String>)> =
        approvals.into_iter().map(|(id, status, by)| (id, (status, by))).collect();
    wrong.extend(
        facts
            .decided
            .iter()
            .filter(|decided| !stands(decided, &approvals))
            .map(|decided| format!("a decision did not stand: {decided:?}, in the end {:?}", approvals.get(&decided.approval))),
    );
    let said = |run: &Uuid| logs.get(run).into_iter().flatten().filter_map(|(_, event)| words_of(event));
    for (run, text) in &facts.said {
        let times = said(run).filter(|words| words.1 == text).count();
        if times != 1 {
            wrong.push(format!("`{text}` was acknowledged and is {times} times in the log of run {run}"));
        }
    }
    for answered in &facts.answered {
        let answers: Vec<&str> =
            said(&answered.run).filter(|words| words.0 == Some(answered.question)).map(|words| words.1).collect();
        if answers != [answered.text.as_str()] {
            wrong.push(format!("an answer is not in the log once: {answered:?}, but {answers:?}"));
        }
    }
    wrong
}

fn stands(decided: &Decided, approvals: &HashMap<Uuid, (String, Option<String>)>) -> bool {
    approvals
        .get(&decided.approval)
        .is_some_and(|(status, by)| status == decided.status.as_str() && (decided.by.is_none() || *by == decided.by))
}

/// What somebody said, and the question that it answers.
fn words_of(event: &Event) -> Option<(Option<Uuid>, &str)> {
    let (question, content) = match event {
        Event::UserMessageCreated(message) => (None, &message.content),
        Event::UserInputDelivered(input) => (Some(input.question_id), &input.content),
        _ => return None,
    };
    let ContentBlock::Text { text } = content.first()?;
    Some((question, text))
}
