//! What a run asks of the person at the terminal. Nothing that goes wrong there ends anything: somebody else may have answered
//! first, or may answer later, and the run is followed all the same. Without a person the command ends, and says how to decide.

mod keyboard;

use std::collections::HashSet;
use std::io::{IsTerminal, Write, stderr, stdin};

use baton_core::approvals::Verdict;
use baton_core::runs::WaitingFor;
use uuid::Uuid;

use self::keyboard::Keyboard;
use crate::client::{Approval, Client, Following, Submitted};
use crate::exit::{Exit, Failure};
use crate::hints::Hints;
use crate::note::note;
use crate::render::visible;

/// What a person hears who does not decide.
const LEFT_OPEN: &str = "! left open, and still following: Ctrl-C leaves, and the run goes on waiting";

pub(crate) enum Asking {
    /// Somebody sits there.
    Person(Keyboard),
    /// Nobody does, or a program reads along.
    Nobody,
}

impl Asking {
    pub(crate) fn new(is_json: bool) -> Self {
        if !is_json && stdin().is_terminal() && stderr().is_terminal() { Self::Person(Keyboard::default()) } else { Self::Nobody }
    }

    /// The event that brought us here may be an old one: what the run waits for is asked of the API.
    ///
    /// A person who is asked goes on following, whatever goes wrong. Where there is nobody, an error: who decides sits elsewhere,
    /// and a script must not hang until then.
    pub(crate) async fn whatever_it_waits_for(
        &mut self,
        client: &Client,
        run: Submitted,
        events: &mut Following<'_>,
    ) -> Result<(), Failure> {
        let waiting_for = client.waiting_for(run.run_id).await;
        match self {
            Self::Person(keyboard) => {
                match waiting_for {
                    Ok(Some(waiting_for)) => Asked { keyboard, client, run, events }.answer(waiting_for).await,
                    Ok(None) => {}
                    Err(failure) => note!("! {failure}"),
                }
                Ok(())
            }
            Self::Nobody => match waiting_for? {
                Some(waiting_for) => {
                    say_how_to_answer(client, run, &waiting_for).await;
                    Err(Failure::new(Exit::Waiting, "the run waits for a person, and nobody is at a terminal here"))
                }
                None => Ok(()),
            },
        }
    }
}

async fn say_how_to_answer(client: &Client, run: Submitted, waiting_for: &WaitingFor) {
    match waiting_for {
        WaitingFor::Approval { approval_ids } => {
            note!("! waits for an approval");
            match client.pending_approvals(run.run_id).await {
                Ok(approvals) => approvals.iter().for_each(show),
                Err(failure) => note!("! {failure}"), // not allowed to look, most often; others are
            }
            approval_ids.iter().for_each(|id| show_how_to_decide(&client.hints, *id));
        }
        WaitingFor::User { question, choices, .. } => {
            note!("! waits for an answer");
            show_question(question, choices.as_deref().unwrap_or_default());
            show_how_to_answer(&client.hints, run.session_id);
        }
    }
}

/// A person at the terminal, and the run that asks them.
struct Asked<'a, 'b> {
    keyboard: &'a mut Keyboard,
    client: &'a Client,
    run: Submitted,
    events: &'a mut Following<'b>,
}

/// What comes of a prompt.
enum Typed {
    Line(String),
    /// Ctrl-D.
    Nothing,
    /// Somebody else was faster, or the run has ended.
    Settled,
}

impl Asked<'_, '_> {
    async fn answer(&mut self, waiting_for: WaitingFor) {
        match waiting_for {
            WaitingFor::Approval { approval_ids } => {
                if let Err(failure) = self.decide_all().await {
                    note!("! {failure}"); // not allowed to look, most often; others are
                    self.leave_approvals(&approval_ids);
                }
            }
            WaitingFor::User { question_id, question, choices, .. } => {
                self.answer_question(question_id, &question, choices.as_deref().unwrap_or_default()).await;
            }
        }
    }

    /// One after the other, each of those that are still open by then.
    async fn decide_all(&mut self) -> Result<(), Failure> {
        let mut asked = HashSet::new();
        loop {
            let pending = self.client.pending_approvals(self.run.run_id).await?;
            let Some(approval) = pending.into_iter().find(|approval| asked.insert(approval.id)) else { return Ok(()) };
            self.decide(&approval).await;
        }
    }

    /// Only a clear word decides.
    async fn decide(&mut self, approval: &Approval) {
        let is_this = |waiting_for: &WaitingFor| matches!(waiting_for, WaitingFor::Approval { approval_ids } if approval_ids.contains(&approval.id));
        show(approval);
        let mut prompt = "Approve? y: yes, once; d: deny; N: not now [y/N/d] ";
        let reply = loop {
            self.keyboard.forget_what_was_typed();
            let reply = match self.typed(prompt, is_this).await {
                Typed::Line(line) => Reply::of(&line),
                Typed::Nothing => Some(Reply::Later),
                Typed::Settled => return,
            };
            match reply {
                Some(reply) => break reply,
                None => prompt = "Please answer y, d or n: ",
            }
        };
        let Reply::Now(verdict) = reply else { return self.leave_approvals(&[approval.id]) };
        if let Err(failure) = self.client.resolve(approval.id, verdict).await {
            note!("! {failure}");
            if !failure.is(Exit::Conflict) {
                self.leave_approvals(&[approval.id]); // open as before: it takes somebody who may
            }
        }
    }

    async fn answer_question(&mut self, question_id: Uuid, question: &str, choices: &[String]) {
        let is_this =
            |waiting_for: &WaitingFor| matches!(waiting_for, WaitingFor::User { question_id: id, .. } if *id == question_id);
        show_question(question, choices);
        self.keyboard.forget_what_was_typed();
        let line = loop {
            match self.typed("> ", is_this).await {
                Typed::Line(line) if line.trim().is_empty() => {}
                Typed::Line(line) => break line,
                Typed::Nothing => return self.leave_question(),
                Typed::Settled => return,
            }
        };
        if let Err(failure) = self.client.input(self.run.run_id, question_id, chosen(line.trim(), choices)).await {
            note!("! {failure}");
            if !failure.is(Exit::Conflict) {
                self.leave_question();
            }
        }
    }

    /// What a person types at the prompt, unless the run stops waiting for it first.
    async fn typed(&mut self, prompt: &str, is_this: impl Fn(&WaitingFor) -> bool) -> Typed {
        let _ = write!(stderr(), "{prompt}"); // whoever sits there has typed, or cannot
        let typed = tokio::select! {
            line = self.keyboard.line() => line.map_or(Typed::Nothing, Typed::Line),
            () = settled(self.client, self.run.run_id, self.events, is_this) => Typed::Settled,
        };
        if !matches!(typed, Typed::Line(_)) {
            note!(""); // nobody ended the prompt's line
        }
        typed
    }

    fn leave_approvals(&self, approval_ids: &[Uuid]) {
        note!("{LEFT_OPEN}");
        approval_ids.iter().for_each(|id| show_how_to_decide(&self.client.hints, *id));
    }

    fn leave_question(&self) {
        note!("{LEFT_OPEN}");
        show_how_to_answer(&self.client.hints, self.run.session_id);
    }
}

/// Returns once the run no longer waits for this: each of its events is a reason to look. The events stay, to be shown. Where
/// the API does not say, never: the person's answer will meet what there is.
async fn settled(client: &Client, run_id: Uuid, events: &mut Following<'_>, is_this: impl Fn(&WaitingFor) -> bool) {
    while let Ok(waiting_for) = client.waiting_for(run_id).await {
        let is_over = !waiting_for.as_ref().is_some_and(&is_this);
        if is_over {
            return;
        }
        if events.look_ahead().await.is_err() {
            break;
        }
    }
    std::future::pending::<()>().await;
}

/// What a person says to an approval.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Now(Verdict),
    /// Whoever answers later decides.
    Later,
}

impl Reply {
    /// None: not understood.
    fn of(line: &str) -> Option<Self> {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" | "approve" => Some(Self::Now(Verdict::ApproveOnce)),
            "d" | "deny" => Some(Self::Now(Verdict::Deny)),
            "" | "n" | "no" | "not now" => Some(Self::Later),
            _ => None,
        }
    }
}

fn show(approval: &Approval) {
    note!("? {}: {}", visible(&approval.tool_name), visible(&approval.action_summary));
    note!("  arguments  {}", visible(approval.arguments.get()));
    note!("  risk       {}", approval.risk);
    note!("  why        {}", visible(&approval.policy_reason));
}

fn show_question(question: &str, choices: &[String]) {
    question.lines().for_each(|line| note!("? {}", visible(line)));
    for (number, choice) in (1..).zip(choices) {
        note!("  {number}  {}", visible(choice));
    }
}

fn show_how_to_decide(hints: &Hints, approval_id: Uuid) {
    note!("  approve    {}", hints.approve(approval_id));
    note!("  deny       {}", hints.deny(approval_id));
}

fn show_how_to_answer(hints: &Hints, session_id: Uuid) {
    note!("  answer     {}", hints.answer(session_id));
}

/// A number stands for its choice, where there is one.
fn chosen<'a>(text: &'a str, choices: &'a [String]) -> &'a str {
    let place = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| choices.get(place)).map_or(text, String::as_str)
}

#[cfg(test)]
mod tests;
