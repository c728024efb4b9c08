//! A person at a terminal: `agentctl` on a pseudo-terminal, whose output is read and whose keyboard is typed on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::pty::openpty;
use nix::sys::signal::Signal;

use super::process::Process;
use super::wait::eventually;

#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) process: Process,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    /// To be called on the test's own thread, to which the process belongs.
    pub(crate) fn agentctl(arguments: &[&str]) -> Self {
        let pty = openpty(None, None).unwrap();
        let end = |fd: &OwnedFd| fd.try_clone().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
        command.args(arguments).stdin(end(&pty.slave)).stdout(end(&pty.slave)).stderr(pty.slave);
        let process = Process::new(baton_devdb::child::spawn(command, Signal::SIGKILL, None).unwrap());
        let screen: Arc<Mutex<String>> = Arc::default();
        let (shown, mut output) = (Arc::clone(&screen), File::from(end(&pty.master)));
        // Ends with the process: then the terminal has no other side.
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { process, keyboard: File::from(pty.master), screen }
    }

    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until this stands on the screen.
    pub(crate) async fn shows(&self, text: &str) {
        eventually(&format!("`{text}` on the screen"), || async { self.screen().contains(text).then_some(()) }).await;
    }

    pub(crate) fn types(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Ctrl-D at the beginning of a line.
    pub(crate) fn ends_typing(&mut self) {
        self.keyboard.write_all(b"\x04").unwrap();
    }
}
