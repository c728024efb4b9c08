//! The Postgres of a process that is gone. It got its death signal and is shutting down, or a power cut took it and
//! only its `postmaster.pid` is left, by now perhaps with the pid of somebody else.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::unistd::Pid;

use super::home::Home;
use crate::{Error, wait};

/// A fast shutdown writes out at most the shared buffers; a disk that needs longer than this has another problem.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(20);

/// Waits until no Postgres uses the data folder, then removes a stale `postmaster.pid`.
///
/// Postgres itself takes any living process with the recorded pid for a postmaster and would refuse to start. We hold
/// the lock of the data folder and have looked at every process, so nothing can be running on it.
pub(super) fn clear(home: &Home) -> Result<(), Error> {
    let data = home.data();
    let pidfile = data.join("postmaster.pid");
    if !pidfile.exists() {
        return Ok(());
    }
    await_end(&data)?;
    match fs::remove_file(&pidfile) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", &pidfile)(error)),
        _ => Ok(()),
    }
}

/// Waits until no Postgres process, postmaster or backend, has `data` as its working folder.
pub(super) fn await_end(data: &Path) -> Result<(), Error> {
    let mut last = None;
    let ended = wait::until(SHUTDOWN_LIMIT, || {
        last = process_in(data);
        Ok(last.is_none().then_some(()))
    })?;
    match (ended, last) {
        (None, Some(pid)) => {
            Err(Error::Leftover { data_dir: data.to_path_buf(), pid: pid.as_raw(), waited_secs: SHUTDOWN_LIMIT.as_secs() })
        }
        _ => Ok(()),
    }
}

/// Any Postgres process that works in `data`. All of them do, from their start on; the name keeps out a shell that
/// somebody left there. Processes of other users cannot be read and cannot be ours.
fn process_in(data: &Path) -> Option<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == data))
        .filter(|entry| fs::read(entry.path().join("comm")).is_ok_and(|name| name.starts_with(b"postgres")))
        .find_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}
