//! What a run asks of the person at the terminal. Nothing that goes wrong there ends anything: somebody else may have answered
//! first, or may answer later, and the run is followed all the same. Without a person the command ends, and says how to decide.

use std::io::{BufRead, IsTerminal, stderr, stdin};

use baton_core::approvals::Verdict;
use baton_core::runs::WaitingFor;
use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::client::{Approval, Client, Submitted};
use crate::exit::{Exit, Failure};
use crate::hints::Hints;
use crate::render::visible;

/// What a person hears who does not decide.
const LEFT_OPEN: &str = "! left open, and still following: Ctrl-C leaves, and the run goes on waiting";

pub(crate) enum Asking {
    /// Somebody sits there.
    Person,
    /// Nobody does, or a program reads along.
    Nobody,
}

impl Asking {
    pub(crate) fn new(is_json: bool) -> Self {
        if !is_json && stdin().is_terminal() && stderr().is_terminal() { Self::Person } else { Self::Nobody }
    }

    /// The event that brought us here may be an old one: what the run waits for is asked of the API.
    ///
    /// A person who is asked goes on following, whatever goes wrong. Where there is nobody, an error: who decides sits elsewhere,
    /// and a script must not hang until then.
    pub(crate) async fn whatever_it_waits_for(&self, client: &Client, run: Submitted) -> Result<(), Failure> {
        let waiting_for = client.waiting_for(run.run_id).await;
        match self {
            Self::Person => {
                let asked = match waiting_for {
                    Ok(Some(waiting_for)) => ask(client, run, waiting_for).await,
                    Ok(None) => Ok(()),
                    Err(failure) => Err(failure),
                };
                if let Err(failure) = asked {
                    eprintln!("! {failure}");
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
            eprintln!("! waits for an approval");
            match client.pending_approvals(run.run_id).await {
                Ok(approvals) => approvals.iter().for_each(show),
                Err(failure) => eprintln!("! {failure}"), // not allowed to look, most often; others are
            }
            approval_ids.iter().for_each(|id| show_how_to_decide(&client.hints, *id));
        }
        WaitingFor::User { question, choices, .. } => {
            eprintln!("! waits for an answer");
            show_question(question, choices.as_deref().unwrap_or_default());
            show_how_to_answer(&client.hints, run.session_id);
        }
    }
}

async fn ask(client: &Client, run: Submitted, waiting_for: WaitingFor) -> Result<(), Failure> {
    match waiting_for {
        WaitingFor::Approval { .. } => {
            for approval in client.pending_approvals(run.run_id).await? {
                if let Err(failure) = decide(client, &approval).await {
                    eprintln!("! {failure}"); // most often: somebody was faster; the next one is another matter
                }
            }
            Ok(())
        }
        WaitingFor::User { question_id, question, choices, .. } => {
            match answer(&question, choices.as_deref().unwrap_or_default()).await {
                Some(text) => client.input(run.run_id, question_id, &text).await,
                None => {
                    eprintln!("{LEFT_OPEN}");
                    show_how_to_answer(&client.hints, run.session_id);
                    Ok(())
                }
            }
        }
    }
}

/// Only a clear word decides.
async fn decide(client: &Client, approval: &Approval) -> Result<(), Failure> {
    show(approval);
    let mut prompt = "Approve? y: yes, once; d: deny; N: not now [y/N/d] ";
    let verdict = loop {
        forget_what_was_typed();
        eprint!("{prompt}");
        match Reply::of(read_line().await.as_deref()) {
            Some(Reply::Now(verdict)) => break verdict,
            Some(Reply::Later) => {
                eprintln!("{LEFT_OPEN}");
                show_how_to_decide(&client.hints, approval.id);
                return Ok(());
            }
            None => prompt = "Please answer y, d or n: ",
        }
    };
    client.resolve(approval.id, verdict).await
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
    fn of(line: Option<&str>) -> Option<Self> {
        match line.unwrap_or_default().trim().to_lowercase().as_str() {
            "y" | "yes" | "approve" => Some(Self::Now(Verdict::ApproveOnce)),
            "d" | "deny" => Some(Self::Now(Verdict::Deny)),
            "" | "n" | "no" | "not now" => Some(Self::Later),
            _ => None,
        }
    }
}

fn show(approval: &Approval) {
    eprintln!("? {}: {}", visible(&approval.tool_name), visible(&approval.action_summary));
    eprintln!("  arguments  {}", visible(approval.arguments.get()));
    eprintln!("  risk       {}", approval.risk);
    eprintln!("  why        {}", visible(&approval.policy_reason));
}

fn show_question(question: &str, choices: &[String]) {
    question.lines().for_each(|line| eprintln!("? {}", visible(line)));
    for (number, choice) in (1..).zip(choices) {
        eprintln!("  {number}  {}", visible(choice));
    }
}

fn show_how_to_decide(hints: &Hints, approval_id: Uuid) {
    eprintln!("  approve    {}", hints.approve(approval_id));
    eprintln!("  deny       {}", hints.deny(approval_id));
}

fn show_how_to_answer(hints: &Hints, session_id: Uuid) {
    eprintln!("  answer     {}", hints.answer(session_id));
}

/// None: the person has nothing to say.
async fn answer(question: &str, choices: &[String]) -> Option<String> {
    show_question(question, choices);
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
