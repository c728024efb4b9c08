//! `agentctl run`: a message, the run it becomes, and everything that happens in it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::{IsTerminal, Write, stdout};

use baton_core::events::ModelResponseFailed;
use baton_core::runs::RequeueCause;
use eventsource_stream::Event;
use serde_json::Value;
use uuid::Uuid;

use crate::args::{Global, Run};
use crate::client::{Client, Submitted};
use crate::commands::ask::Asking;
use crate::connection::client;
use crate::exit::{Exit, Failure};
use crate::note::note;
use crate::render;

pub(crate) async fn run(global: &Global, args: Run) -> Result<(), Failure> {
    let client = client(global, args.api.url.as_deref(), args.api.token)?;
    let session_id = match args.session {
        Some(session_id) => session_id,
        None => {
            let created = client.create_session(&args.agent).await;
            created.map_err(|failure| failure.hint_at(Exit::NotFound, &format!("the agent is `{}`", args.agent)))?
        }
    };
    let submitted = client.submit(session_id, &args.message).await?;
    if args.detach {
        return if global.json {
            render::json(&serde_json::json!({"run_id": submitted.run_id, "session_id": submitted.session_id}))
        } else {
            render::line(&submitted.run_id.to_string())
        };
    }
    let mut transcript = Transcript::new(global.json);
    let go_on = format!("the run is stored and goes on: `{}`", client.hints.follow(submitted.run_id));
    let mut asking = Asking::new(global.json);
    tokio::select! {
        followed = follow(&client, submitted, &mut transcript, &mut asking) => followed.map_err(|failure| failure.hint(&go_on))?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new(Exit::Interrupted, go_on)),
    }
    transcript.end(session_id)
}

async fn follow(client: &Client, submitted: Submitted, transcript: &mut Transcript, asking: &mut Asking) -> Result<(), Failure> {
    let mut events = client.follow(submitted.run_id);
    while let Some(event) = events.next().await? {
        match transcript.show(&event)? {
            Next::Go => {}
            Next::Ask => asking.whatever_it_waits_for(client, submitted, &mut events).await?,
            Next::Stop => return Ok(()),
        }
    }
    Ok(())
}

/// What follows an event.
enum Next {
    Go,
    /// The run waits for a person.
    Ask,
    /// The run has ended.
    Stop,
}

/// What a person sees of a run: text on stdout as it is written, what happens beside it on stderr.
struct Transcript {
    is_json: bool,
    is_live: bool,
    /// The request of the model that began last: its step, and the attempt of that.
    request: (u64, u64),
    /// Deltas of requests whose beginning has not come yet: what is not stored may overtake what is.
    early: Vec<Value>,
    /// The part of the current message that stands on the terminal.
    shown: String,
    failure: Option<String>,
}

impl Transcript {
    fn new(is_json: bool) -> Self {
        Self { is_json, is_live: stdout().is_terminal(), request: (0, 0), early: Vec::new(), shown: String::new(), failure: None }
    }

    fn show(&mut self, event: &Event) -> Result<Next, Failure> {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if self.is_json && !event.event.starts_with("stream.") {
            render::line(&event.data)?;
        }
        match event.event.as_str() {
            "model.request.started" if !self.is_json => {
                self.request = request_of(&data);
                std::mem::take(&mut self.early).into_iter().for_each(|delta| self.delta(delta));
            }
            "message.delta" if !self.is_json => self.delta(data),
            "assistant.message.completed" if !self.is_json => self.message(&data)?,
            "run.waiting_for_approval" | "run.waiting_for_user" => {
                self.break_line();
                return Ok(Next::Ask);
            }
            "run.completed" => return Ok(Next::Stop),
            "run.failed" => {
                self.failure =
                    Some(format!("the run failed: {} ({})", text(&data["failure"]["message"]), text(&data["failure"]["reason"])));
                return Ok(Next::Stop);
            }
            "run.cancelled" => {
                self.failure = Some("the run was cancelled".into());
                return Ok(Next::Stop);
            }
            kind => {
                if let Some(line) = beside(kind, &data).filter(|_| !self.is_json) {
                    self.aside(&line);
                }
            }
        }
        Ok(Next::Go)
    }

    /// A piece that continues what stands there is written at once; a gap waits for the whole message. A piece of a later request
    /// waits for all that is stored before it, and one of an earlier request says nothing new.
    fn delta(&mut self, data: Value) {
        match request_of(&data).cmp(&self.request) {
            Ordering::Less => return,
            Ordering::Equal => {}
            Ordering::Greater => return self.early.push(data),
        }
        let offset = data["offset"].as_u64().and_then(|offset| usize::try_from(offset).ok());
        if offset == Some(0) && !self.shown.is_empty() {
            self.break_line(); // another attempt begins the message again
        }
        if self.is_live && offset == Some(self.shown.encode_utf16().count()) {
            let piece = text(&data["text"]);
            print!("{}", self.printed(piece));
            let _ = stdout().flush();
            self.shown.push_str(piece);
        }
    }

    fn message(&mut self, data: &Value) -> Result<(), Failure> {
        let blocks = data["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let whole: String = blocks.iter().map(|block| text(&block["text"])).collect::<Vec<_>>().join("\n");
        let rest = match whole.strip_prefix(self.shown.as_str()) {
            Some(rest) => rest,
            None if self.shown.starts_with(&whole) => "", // more was shown than is kept
            None => {
                self.break_line();
                &whole
            }
        };
        self.shown.clear();
        render::line(&self.printed(rest))?;
        if data["truncated"] == true {
            self.aside("! the answer was cut off");
        }
        Ok(())
    }

    /// Elsewhere than at a terminal it is what the model said, byte for byte.
    fn printed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_live { Cow::Owned(render::harmless(text)) } else { Cow::Borrowed(text) }
    }

    fn aside(&mut self, line: &str) {
        self.break_line();
        note!("{}", render::visible(line));
    }

    fn break_line(&mut self) {
        if !self.shown.is_empty() {
            println!();
            self.shown.clear();
        }
    }

    fn end(mut self, session_id: Uuid) -> Result<(), Failure> {
        self.break_line();
        if !self.is_json && std::io::stderr().is_terminal() {
            note!("(go on with --session {session_id})");
        }
        self.failure.map_or(Ok(()), |failure| Err(Failure::new(Exit::FailedRun, failure)))
    }
}

/// What happens beside the text, in a line.
fn beside(kind: &str, data: &Value) -> Option<String> {
    Some(match kind {
        "tool.call.proposed" => format!("→ {} {}", text(&data["name"]), data["arguments"]),
        "tool.call.completed" => format!("← {}", data["result"]),
        "tool.call.failed" => format!("← {}: {}", text(&data["reason_code"]), text(&data["message"])),
        // Whoever cut it off says why.
        "model.response.failed" if data["code"] == ModelResponseFailed::INTERRUPTED => return None,
        "model.response.failed" => format!("! the model did not answer ({})", text(&data["code"])),
        "run.requeued" if data["cause"] == RequeueCause::HandedBack.as_str() => "! the worker stops; another goes on".into(),
        "run.requeued" => "! the worker was lost; another takes over".into(),
        "approval.resolved" => {
            let by = data["resolved_by"].as_str().map(|person| format!(" by {person}")).unwrap_or_default();
            format!("! an approval was resolved: {}{by}", text(&data["decision"]))
        }
        _ => return None,
    })
}

/// Requests of a run are in the order of this.
fn request_of(data: &Value) -> (u64, u64) {
    let number = |name: &str| data[name].as_u64().unwrap_or_default();
    (number("step"), number("attempt"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
