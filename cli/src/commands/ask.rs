//! What a run asks of the person at the terminal. Nothing that goes wrong here ends anything: somebody else may have answered
//! first, or may answer later, and the run is followed all the same.

use std::io::{BufRead, IsTerminal, stderr, stdin};

use baton_core::approvals::Verdict;
use baton_core::runs::WaitingFor;
use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::client::{Approval, Client};
use crate::exit::Failure;
use crate::render::visible;

pub(crate) enum Asking {
    /// Somebody sits there.
    Person,
    /// Nobody does, or a program reads along: only how to answer is said.
    Nobody,
}

impl Asking {
    pub(crate) fn new(is_json: bool) -> Self {
        if !is_json && stdin().is_terminal() && stderr().is_terminal() { Self::Person } else { Self::Nobody }
    }

    /// The event that brought us here may be an old one: what the run waits for is asked of the API.
    pub(crate) async fn whatever_it_waits_for(&self, client: &Client, run_id: Uuid) {
        let asked = match client.waiting_for(run_id).await {
            Ok(None) => Ok(()),
            Ok(Some(waiting_for)) => match self {
                Self::Person => ask(client, run_id, waiting_for).await,
                Self::Nobody => {
                    say_how_to_answer(&waiting_for, run_id);
                    Ok(())
                }
            },
            Err(failure) => Err(failure),
        };
        if let Err(failure) = asked {
            eprintln!("! {failure}");
        }
    }
}

fn say_how_to_answer(waiting_for: &WaitingFor, run_id: Uuid) {
    match waiting_for {
        WaitingFor::Approval { approval_ids } => {
            for id in approval_ids {
                eprintln!("! waits for an approval: `agentctl approvals get {id}`, then `approve` or `deny`");
            }
        }
        WaitingFor::User { question, .. } => {
            eprintln!("! waits for an answer: POST /v1/runs/{run_id}/input, or another message to its session");
            question.lines().for_each(|line| eprintln!("! {}", visible(line)));
        }
    }
}

async fn ask(client: &Client, run_id: Uuid, waiting_for: WaitingFor) -> Result<(), Failure> {
    match waiting_for {
        WaitingFor::Approval { .. } => {
            for approval in client.pending_approvals(run_id).await? {
                if let Err(failure) = decide(client, &approval).await {
                    eprintln!("! {failure}"); // most often: somebody was faster; the next one is another matter
                }
            }
            Ok(())
        }
        WaitingFor::User { question_id, question, choices, .. } => {
            let Some(text) = answer(&question, &choices.unwrap_or_default()).await else { return Ok(()) };
            client.input(run_id, question_id, &text).await
        }
    }
}

/// Only a clear word decides: anything else leaves the approval to whoever answers later.
async fn decide(client: &Client, approval: &Approval) -> Result<(), Failure> {
    eprintln!("? {}: {}", visible(&approval.tool_name), visible(&approval.action_summary));
    eprintln!("  arguments  {}", visible(approval.arguments.get()));
    eprintln!("  risk       {}", approval.risk);
    eprintln!("  why        {}", visible(&approval.policy_reason));
    forget_what_was_typed();
    eprint!("Approve? y: yes, once; d: deny; N: not now [y/N/d] ");
    let verdict = match read_line().await.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => Verdict::ApproveOnce,
        Some("d" | "D" | "deny") => Verdict::Deny,
        _ => {
            eprintln!("! left open: `agentctl approvals approve {0}`, or `deny {0}`", approval.id);
            return Ok(());
        }
    };
    client.resolve(approval.id, verdict).await
}

/// None: the person has nothing to say.
async fn answer(question: &str, choices: &[String]) -> Option<String> {
    question.lines().for_each(|line| eprintln!("? {}", visible(line)));
    for (number, choice) in (1..).zip(choices) {
        eprintln!("  {number}  {}", visible(choice));
    }
    forget_what_was_typed();
    loop {
        eprint!("> ");
        let line = read_line().await?;
        let text = line.trim();
        if !text.is_empty() {
            return Some(chosen(text, choices).to_owned());
        }
    }
}

/// A number stands for its choice, where there is one.
fn chosen<'a>(text: &'a str, choices: &'a [String]) -> &'a str {
    let place = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| choices.get(place)).map_or(text, String::as_str)
}

/// What was typed before a question stood there does not answer it.
fn forget_what_was_typed() {
    let _ = tcflush(stdin(), FlushArg::TCIFLUSH); // not a terminal: then nobody is asked
}

/// A line of stdin; None at its end. In a thread of its own, which the process does not wait for when it is interrupted, as it
/// would for one of the runtime's.
async fn read_line() -> Option<String> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        let read = stdin().lock().read_until(b'\n', &mut line);
        // Whoever asked may be gone.
        let _ = sender.send(read.is_ok_and(|bytes| bytes > 0).then(|| String::from_utf8_lossy(&line).into_owned()));
    });
    receiver.await.ok().flatten()
}

#[cfg(test)]
mod tests;
