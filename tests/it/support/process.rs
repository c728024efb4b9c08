//! A real process of ours, which dies with the test however that ends.

use std::fs::File;
use std::process::{Child, Command, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wait::eventually;

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self { child }
    }

    /// `agentctl` with these arguments and variables. To be called on the test's own thread: the death signal belongs to it.
    pub(crate) fn agentctl(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
        // Errors show when a test fails; what goes well would drown them.
        command.env("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| "error".into()));
        command.args(arguments).envs(variables.iter().copied());
        Self { child: baton_devdb::child::spawn(command, Signal::SIGKILL, None).unwrap() }
    }

    /// The same, with everything that it says in this file.
    pub(crate) fn agentctl_into(file: File, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
        command.args(arguments).envs(variables.iter().copied());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: baton_devdb::child::spawn(command, Signal::SIGKILL, None).unwrap() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// `kill -9`, and until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end that a signal or a fault has brought.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = std::cell::RefCell::new(&mut self.child);
        eventually("the process has ended", || async { child.borrow_mut().try_wait().unwrap() }).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // fails where it has ended
        let _ = self.child.wait();
    }
}
