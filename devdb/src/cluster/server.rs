//! The running `postgres`, from its spawn to its end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::home::{Home, PORT};
use super::{Durability, Options, leftover};
use crate::{Binaries, Error, child, run, wait};

/// From spawn to the first connection. Usually 50 ms; recovery after a crash reads the log since the last checkpoint.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A fast stop writes a checkpoint.
const FAST_STOP_LIMIT: Duration = Duration::from_secs(10);

/// An immediate stop writes nothing.
const IMMEDIATE_STOP_LIMIT: Duration = Duration::from_secs(5);

/// How much of an output an error shows.
pub(super) const TAIL_LINES: usize = 12;

/// Fast stop: ends the sessions, writes a checkpoint. Also what the kernel sends when we die.
const FAST_STOP: Signal = Signal::SIGINT;

/// Immediate stop: as a crash, but without orphans.
const IMMEDIATE_STOP: Signal = Signal::SIGQUIT;

/// A program of `binaries` with an empty environment: a `PGPORT` or `PGOPTIONS` of the user's is not meant for this
/// cluster. It starts in `/`, because our own working folder may be closed to the owner.
pub(super) fn command(binaries: &Binaries, program: &str) -> Command {
    let mut command = Command::new(binaries.program(program));
    command.env_clear().envs([("LC_ALL", "C"), ("TZ", "UTC")]).current_dir("/");
    command
}

/// The postmaster, a child of the thread that started it.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
}

impl Server {
    /// Starts Postgres and returns once it accepts connections.
    pub(super) fn start(home: &Home, binaries: &Binaries, options: &Options) -> Result<Server, Error> {
        leftover::clear(home)?;
        let log_path = home.log();
        let log = new_log(&log_path).map_err(Error::file("create", &log_path))?;
        let mut command = command(binaries, "postgres");
        command
            .args(settings(home, binaries, options))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(Error::file("open", &log_path))?)
            .stderr(log);
        let child = child::spawn(command, FAST_STOP, Some(&home.owner()))
            .map_err(|source| Error::Program { program: binaries.program("postgres"), source })?;
        let mut server = Server { child };
        match server.await_ready(&home.data()) {
            Ok(()) => Ok(server),
            Err(why) => {
                server.stop()?;
                let log = fs::read_to_string(&log_path).unwrap_or_default();
                Err(Error::Start { why, output: run::last_lines(&log, TAIL_LINES), log: log_path })
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The postmaster's exit status, if it has ended.
    pub(super) fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        let pid = self.pid();
        self.child.try_wait().map_err(|source| Error::Process { action: "await", pid, source })
    }

    /// Fast stop, then immediate stop, then kill. Nothing happens if it has ended.
    pub(super) fn stop(&mut self) -> Result<(), Error> {
        for (signal, limit) in [(FAST_STOP, FAST_STOP_LIMIT), (IMMEDIATE_STOP, IMMEDIATE_STOP_LIMIT)] {
            if self.try_wait()?.is_some() {
                return Ok(());
            }
            self.signal(signal)?;
            if wait::until(limit, || self.try_wait())?.is_some() {
                return Ok(());
            }
        }
        self.kill()
    }

    /// `kill -9`, and waits for the postmaster. Its backends notice by themselves: see [`leftover::await_end`].
    pub(super) fn kill(&mut self) -> Result<(), Error> {
        let pid = self.pid();
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|source| Error::Process {
            action: "kill",
            pid,
            source,
        })
    }

    /// Sends `signal` to a child that has not been waited for, so that the pid cannot have been given to another.
    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = self.pid();
        kill(Pid::from_raw(pid.cast_signed()), signal).map_err(|errno| Error::Process {
            action: "stop",
            pid,
            source: errno.into(),
        })
    }

    /// Waits for the last line of `postmaster.pid`, which is where `pg_ctl` looks too: it names the state, and the
    /// first line the pid, so that a stale file is not taken for an answer.
    fn await_ready(&mut self, data: &Path) -> Result<(), String> {
        let pidfile = data.join("postmaster.pid");
        let pid = self.pid().to_string();
        let outcome = wait::until(START_LIMIT, || {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(Err(format!("it ended with {status}"))));
            }
            let lines = fs::read_to_string(&pidfile).unwrap_or_default();
            let mut lines = lines.lines();
            let ours = lines.next() == Some(&pid);
            let ready = lines.next_back().is_some_and(|state| state.trim() == "ready");
            Ok((ours && ready).then_some(Ok(())))
        });
        match outcome {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(format!("it was not ready after {} s", START_LIMIT.as_secs())),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// An empty log: it is bounded by one start. A new file, because the old one may be root's, left by a `sudo`.
fn new_log(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

/// The command line of `postgres`. The port is named because the environment of a client may name another default.
fn settings(home: &Home, binaries: &Binaries, options: &Options) -> Vec<OsString> {
    let mut settings: Vec<OsString> =
        vec!["-D".into(), home.data().into(), "-k".into(), home.socket_dir().into(), "-p".into(), PORT.to_string().into()];
    let mut set = |setting: String| settings.extend(["-c".into(), setting.into()]);
    set("listen_addresses=".to_owned());
    set(format!("max_connections={}", options.max_connections));
    if options.durability == Durability::Fast {
        set("fsync=off".to_owned());
        set("full_page_writes=off".to_owned());
    }
    if binaries.has_pg_stat_statements() {
        set("shared_preload_libraries=pg_stat_statements".to_owned());
    }
    settings
}
