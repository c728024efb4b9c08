//! Runs a program to its end, within a limit, and keeps what it said.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::{Error, Owner, child, wait};

/// How a program ended.
pub(crate) struct Ended {
    /// `None`: it was killed for taking too long.
    pub(crate) status: Option<ExitStatus>,
    /// Standard output and standard error, in the order written.
    pub(crate) output: String,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs `command` as `owner` for at most `limit`. Output goes through a file, which cannot fill up and block as a pipe
/// can.
pub(crate) fn to_end(mut command: Command, owner: Option<&Owner>, limit: Duration) -> Result<Ended, Error> {
    let program = Path::new(command.get_program()).to_path_buf();
    let failed = |source| Error::Program { program: program.clone(), source };
    let mut output = tempfile::tempfile().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output.try_clone().map_err(failed)?);
    let mut child = child::spawn(command, Signal::SIGKILL, owner).map_err(failed)?;
    let status = wait::until(limit, || child.try_wait().map_err(failed))?;
    if status.is_none() {
        child.kill().and_then(|()| child.wait()).map_err(failed)?;
    }
    let output = read_back(&mut output).map_err(failed)?;
    Ok(Ended { status, output })
}

fn read_back(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last `count` lines of `text`: where a program says why it failed.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
