//! How results look: tables and lines for people, the API's views for programs.

use std::io::{self, Write};

use baton_core::approvals::ApprovalView;
use baton_core::config::Slots;
use baton_core::page::Page;
use baton_core::queue::QueueView;
use baton_core::runs::{RunView, WaitingFor, WhyView};
use baton_core::sessions::SessionView;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// One line of stdout.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    document(&format!("{text}\n"))
}

/// Text for stdout, exactly. A reader that has gone (`| head`) ends the command quietly.
pub(crate) fn document(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::unavailable("stdout", &error)),
    }
}

pub(crate) fn json<T: Serialize>(view: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(view).map_err(|error| Failure::new(Exit::FailedRun, error.to_string()))?;
    line(&text)
}

pub(crate) fn sessions(page: &Page<SessionView>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["SESSION", "STATUS", "AGENT", "TITLE", "CREATED"]);
    for session in &page.items {
        table.add_row([
            session.id.to_string(),
            session.status.to_string(),
            session.agent_id.clone(),
            visible(session.title.as_deref().unwrap_or_default()),
            time(session.created_at),
        ]);
    }
    line(&table.to_string())?;
    more(page)
}

pub(crate) fn session(session: &SessionView) -> Result<(), Failure> {
    let mut rows = vec![
        ("session", session.id.to_string()),
        ("owner", visible(&session.principal_id)),
        ("agent", format!("{} {}", session.agent_id, session.agent_version)),
        ("status", session.status.to_string()),
        ("created", time(session.created_at)),
        ("updated", time(session.updated_at)),
    ];
    rows.extend(session.title.as_deref().map(|title| ("title", visible(title))));
    rows.extend(session.active_run_id.map(|id| ("active run", id.to_string())));
    rows.extend(session.last_run_id.map(|id| ("last run", id.to_string())));
    facts(rows)
}

pub(crate) fn runs(page: &Page<RunView>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["RUN", "STATUS", "AGENT", "STEPS", "CREATED"]);
    for run in &page.items {
        table.add_row([
            run.id.to_string(),
            run.status.to_string(),
            run.agent_id.clone(),
            run.step_count.to_string(),
            time(run.created_at),
        ]);
    }
    line(&table.to_string())?;
    more(page)
}

fn more<T>(page: &Page<T>) -> Result<(), Failure> {
    match &page.next_cursor {
        Some(cursor) => line(&format!("more: --cursor {cursor}")),
        None => Ok(()),
    }
}

pub(crate) fn run(run: &RunView) -> Result<(), Failure> {
    let mut rows = vec![
        ("run", run.id.to_string()),
        ("session", run.session_id.to_string()),
        ("agent", format!("{} {}", run.agent_id, run.agent_version)),
        ("status", run.status.to_string()),
        ("steps", run.step_count.to_string()),
        ("model calls", run.usage.model_calls.to_string()),
        ("tool calls", run.usage.tool_calls.to_string()),
        ("tokens", format!("{} in, {} out", run.usage.input_tokens, run.usage.output_tokens)),
        ("cost", run.usage.cost_usd.map_or_else(|| "not known: a model has no price".into(), |cost| format!("{cost} USD"))),
        ("created", time(run.created_at)),
    ];
    rows.extend(run.started_at.map(|at| ("started", time(at))));
    rows.extend(run.finished_at.map(|at| ("finished", time(at))));
    rows.extend(run.cancel.map(|cancel| ("cancel requested", time(cancel.requested_at))));
    rows.extend(run.failure.as_ref().map(|failure| ("failure", format!("{}: {}", failure.reason, failure.message))));
    match &run.waiting_for {
        None => {}
        Some(WaitingFor::Approval { approval_ids }) => {
            rows.extend(approval_ids.iter().map(|id| ("waits for approval", id.to_string())));
        }
        Some(WaitingFor::User { question, choices, expires_at, .. }) => {
            rows.push(("waits for an answer", visible(question)));
            rows.extend(choices.iter().flatten().map(|choice| ("choice", visible(choice))));
            rows.push(("answer before", time(*expires_at)));
        }
    }
    facts(rows)
}

pub(crate) fn why(why: &WhyView) -> Result<(), Failure> {
    let mut rows = vec![("status", why.status.to_string()), ("because", why.because.to_string()), ("since", time(why.since))];
    rows.extend(why.until.map(|at| ("until", time(at))));
    rows.extend(why.approval_ids.iter().map(|id| ("approval", id.to_string())));
    rows.extend(why.question_id.map(|id| ("question", id.to_string())));
    rows.extend(why.worker_seen_at.map(|at| ("worker seen", time(at))));
    rows.push(("next", why.next.to_owned()));
    facts(rows)
}

pub(crate) fn queue(queue: &QueueView) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["PRIORITY", "QUEUED", "OLDEST", "RUNNING"]);
    for class in &queue.classes {
        let oldest = class.oldest_age_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1} s"));
        table.add_row([class.priority.to_string(), class.depth.to_string(), oldest, class.running.to_string()]);
    }
    line(&table.to_string())?;
    if queue.workers.is_empty() {
        return line("no worker is running: start one with `agentctl worker`");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["WORKER", "VERSION", "SLOTS", "STARTED", "SEEN"]);
    for worker in &queue.workers {
        let Slots { interactive, r#async: background, maintenance, shared } = worker.slots;
        let slots = format!("{interactive} + {background} + {maintenance} + {shared} shared");
        let (started, seen) = (time(worker.started_at), time(worker.seen_at));
        table.add_row([worker.id.to_string(), worker.version.clone(), slots, started, seen]);
    }
    line(&table.to_string())
}

pub(crate) fn approvals(page: &Page<ApprovalView>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "APPROVAL",
        "RUN",
        "STATUS",
        "TOOL",
        "RISK",
        "ACTION",
        "ARGUMENTS",
        "EXPIRES",
    ]);
    for approval in &page.items {
        table.add_row([
            approval.id.to_string(),
            approval.run_id.to_string(),
            approval.status.to_string(),
            visible(&approval.tool_name),
            approval.risk.to_string(),
            visible(&approval.action_summary),
            shortened(&visible(approval.arguments.get())),
            time(approval.expires_at),
        ]);
    }
    line(&table.to_string())?;
    more(page)
}

pub(crate) fn approval(approval: &ApprovalView) -> Result<(), Failure> {
    let mut rows = vec![
        ("approval", approval.id.to_string()),
        ("run", approval.run_id.to_string()),
        ("session", approval.session_id.to_string()),
        ("status", approval.status.to_string()),
        ("tool", visible(&approval.tool_name)),
        ("action", visible(&approval.action_summary)),
        ("arguments", visible(approval.arguments.get())),
        ("risk", approval.risk.to_string()),
        ("why", visible(&approval.policy_reason)),
        ("created", time(approval.created_at)),
        ("expires", time(approval.expires_at)),
    ];
    rows.extend(approval.resolved_at.map(|at| ("resolved", time(at))));
    rows.extend(approval.resolved_by.as_deref().map(|person| ("by", visible(person))));
    facts(rows)
}

fn facts(rows: Vec<(&'static str, String)>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    line(&table.to_string())
}

/// A text that models or tools wrote, so that a person who decides by it sees all of it: what would move the cursor, reorder
/// the line or be invisible stands there as JSON would escape it.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, |character| {
        character.is_control()
            || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    })
}

/// A text of several lines for a terminal, which would obey what is escaped here.
pub(crate) fn harmless(text: &str) -> String {
    escaped(text, |character| character.is_control() && !matches!(character, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, character| {
        if is_escaped(character) {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            shown.push(character);
        }
        shown
    })
}

/// The beginning, in a list: nobody decides by it without `get`.
fn shortened(text: &str) -> String {
    const CHARACTERS: usize = 60;
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// One event: its data as it is, or a line with what is not the same in every event.
pub(crate) fn event(data: &str, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return line(data);
    }
    let Ok(Value::Object(mut event)) = serde_json::from_str(data) else { return line(data) };
    let mut take = |name: &str| event.remove(name).unwrap_or_default();
    let (sequence, event_type, _) =
        (take("sequence"), take("type"), (take("run_id"), take("session_id"), take("schema_version"), take("created_at")));
    line(&format!("{:>6} {:<26} {}", sequence.to_string(), event_type.as_str().unwrap_or_default(), Value::Object(event)))
}

/// The data of a frame.
pub(crate) fn data_of(frame: &[u8]) -> String {
    let text = String::from_utf8_lossy(frame);
    text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default().to_owned()
}

fn time(at: time::OffsetDateTime) -> String {
    at.replace_nanosecond(0).unwrap_or(at).format(&time::format_description::well_known::Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests;
