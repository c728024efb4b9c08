//! How a command ends: exit codes for scripts, and for people a line that says what to do next.

use std::process::ExitCode;

use crate::note::note;
use baton_core::agents::LoadError;
use baton_core::config::ConfigError;
use baton_core::error::chain;
use baton_core::policy::ProfileError;
use baton_core::{Code, Error};

/// Exit codes that scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    FailedRun = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    Conflict = 5,
    Unavailable = 6,
    /// The run waits for a person, and nobody can be asked here.
    Waiting = 7,
    Interrupted = 130,
}

/// Why a command did not succeed; its text says so to a person.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// With everything that led to it.
    pub(crate) fn unavailable(what: &str, error: &dyn std::error::Error) -> Self {
        Self::new(Exit::Unavailable, format!("{what}: {}", chain(error)))
    }

    /// Settings that cannot be followed, with everything that led to it.
    pub(crate) fn settings(error: &dyn std::error::Error) -> Self {
        Self::usage(chain(error))
    }

    /// The same, with what to do next.
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.message = format!("{}; {hint}", self.message);
        self
    }

    /// The same end, in other words.
    pub(crate) fn saying(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// The same, where it ends the command in this way.
    pub(crate) fn hint_at(self, exit: Exit, hint: &str) -> Self {
        if self.exit == exit { self.hint(hint) } else { self }
    }

    pub(crate) fn is(&self, exit: Exit) -> bool {
        self.exit == exit
    }

    pub(crate) fn report(self) -> ExitCode {
        note!("agentctl: {self}");
        ExitCode::from(self.exit as u8)
    }
}

/// The exit code of an error's code.
pub(crate) fn exit_of(code: &str) -> Exit {
    let is = |codes: &[Code]| codes.iter().any(|known| known.as_str() == code);
    if is(&[Code::NotFound, Code::ToolNotFound]) {
        Exit::NotFound
    } else if is(&[Code::AuthenticationError, Code::AuthorizationError, Code::ToolPolicyDenied, Code::MisdirectedRequest]) {
        Exit::Refused
    } else if is(&[Code::Conflict, Code::InvalidStateTransition, Code::ConcurrencyConflict]) {
        Exit::Conflict
    } else if is(&[Code::ServiceUnavailable, Code::RateLimited, Code::DeadlineExceeded]) {
        Exit::Unavailable
    } else if is(&[Code::MalformedRequest, Code::PayloadTooLarge, Code::UnsupportedMediaType, Code::MethodNotAllowed]) {
        Exit::Usage
    } else {
        Exit::FailedRun
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = exit_of(error.code().as_str());
        let message = match &error {
            Error::Malformed(problems) => {
                problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect::<Vec<_>>().join("; ")
            }
            _ => chain(&error),
        };
        Self { exit, message }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match &error {
            LoadError::Database(_) => Self::unavailable("agents", &error),
            _ => Self::settings(&error),
        }
    }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        Self::settings(&error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(format!("configuration: {error}"))
    }
}
