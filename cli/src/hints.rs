//! Commands to copy. They work where they are printed: under the name by which this program was called, with the folder, the caller
//! or the address that it was given.

use std::ffi::OsString;
use std::path::Path;

use baton_core::{Conflict, Error};
use secrecy::SecretString;
use uuid::Uuid;

use crate::args::{Caller, DATA_DIR, Global, PRINCIPAL, TENANT};
use crate::exit::Failure;

/// How to say what a person does next.
#[derive(Debug)]
pub(crate) struct Hints {
    program: String,
    reach: Reach,
}

#[derive(Debug)]
enum Reach {
    /// The operator's commands reach what we reach, with these flags.
    Database { caller: String },
    /// Only the API does, or only a token says who we are.
    Api { url: String, authorization: &'static str },
}

impl Hints {
    /// Of a command that asks the database.
    pub(crate) fn of_operator(global: &Global, caller: &Caller) -> Self {
        let flag = |name: &str, value: &str, default: &str| {
            if value == default { String::new() } else { format!(" --{name} {}", quoted(value)) }
        };
        let caller = flag("tenant", &caller.tenant, TENANT) + &flag("principal", &caller.principal, PRINCIPAL);
        Self { program: program(global), reach: Reach::Database { caller } }
    }

    /// Of a command that asks the API: at an address that it was given, or else that of the running `dev`.
    pub(crate) fn of_client(global: &Global, url: Option<&str>, token: Option<&SecretString>, dev_url: &str) -> Self {
        let program = program(global);
        let reach = match (url, token) {
            (None, None) => Reach::Database { caller: String::new() },
            (url, token) => Reach::Api {
                url: url.unwrap_or(dev_url).to_owned(),
                authorization: if token.is_some() { " -H \"Authorization: Bearer $BATON_TOKEN\"" } else { "" },
            },
        };
        Self { program, reach }
    }

    pub(crate) fn approve(&self, approval_id: Uuid) -> String {
        self.resolve(approval_id, "approve", "approve_once")
    }

    pub(crate) fn deny(&self, approval_id: Uuid) -> String {
        self.resolve(approval_id, "deny", "deny")
    }

    fn resolve(&self, approval_id: Uuid, command: &str, decision: &str) -> String {
        match &self.reach {
            Reach::Database { caller } => format!("{} approvals {command} {approval_id}{caller}", self.program),
            Reach::Api { url, authorization } => format!(
                "curl -X POST {url}/v1/approvals/{approval_id}/resolve{authorization} -H 'Content-Type: application/json' \
                 -d '{{\"decision\":\"{decision}\"}}'"
            ),
        }
    }

    /// Another message to the session of a run that has asked is its answer.
    pub(crate) fn answer(&self, session_id: Uuid) -> String {
        let url = match &self.reach {
            Reach::Database { .. } => String::new(),
            Reach::Api { url, .. } => format!(" --url {url}"),
        };
        format!("{} run --session {session_id}{url} \"your answer\"", self.program)
    }

    pub(crate) fn follow(&self, run_id: Uuid) -> String {
        self.of_run(run_id, "runs events --follow", "curl -N", "/events")
    }

    pub(crate) fn why(&self, run_id: Uuid) -> String {
        self.of_run(run_id, "why", "curl", "/why")
    }

    fn cancel(&self, run_id: Uuid) -> String {
        self.of_run(run_id, "runs cancel", "curl -X POST", "/cancel")
    }

    fn of_run(&self, run_id: Uuid, command: &str, curl: &str, path: &str) -> String {
        match &self.reach {
            Reach::Database { caller } => format!("{} {command} {run_id}{caller}", self.program),
            Reach::Api { url, authorization } => format!("{curl} {url}/v1/runs/{run_id}{path}{authorization}"),
        }
    }

    /// What to do about a session whose run is in the way.
    pub(crate) fn active_run(&self, run_id: Uuid, status: &str) -> String {
        let (why, cancel) = (self.why(run_id), self.cancel(run_id));
        format!("the session has a run that is not finished: {run_id} is {status}; `{why}` says why, `{cancel}` stops it")
    }

    /// A service's error as this command's failure.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        let active = match &error {
            Error::Conflict(Conflict::ActiveRun { run_id, status }) => Some(self.active_run(*run_id, status.as_str())),
            _ => None,
        };
        let failure = Failure::from(error);
        match active {
            Some(message) => failure.saying(message),
            None => failure,
        }
    }
}

/// This program as it was called, which may not be on the `PATH`, with what says where its database is.
pub(crate) fn program(global: &Global) -> String {
    let name = std::env::args_os().next().unwrap_or_else(|| OsString::from("agentctl"));
    let mut words = vec![quoted(&name.to_string_lossy())];
    if let Some(config) = &global.config {
        words.extend(["--config".into(), quoted(&config.to_string_lossy())]);
    }
    if global.data_dir != Path::new(DATA_DIR) {
        words.extend(["--data-dir".into(), quoted(&global.data_dir.to_string_lossy())]);
    }
    words.join(" ")
}

/// As a shell takes it for one word.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "-_./:@%+=,".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests;
