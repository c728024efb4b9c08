//! A child process that dies with us, whatever ends us. The one file of the workspace with `unsafe`.
//!
//! The kernel sends a child its death signal when the **thread** that spawned it ends, not the process. So spawn from a
//! thread that lives as long as the child should: the main thread (the main future of `#[tokio::main]` runs there), or
//! a thread kept for that purpose; never a pool thread or `tokio::spawn`.
#![expect(
    unsafe_code,
    reason = "the death signal and the credentials must be set between fork and exec, and only an unsafe hook runs there"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid, setgid, setgroups, setpgid, setuid};

use crate::Owner;

/// Spawns `command` bound to the calling thread: see [`bind`].
pub fn spawn(mut command: Command, death: Signal, owner: Option<&Owner>) -> io::Result<Child> {
    bind(&mut command, death, owner);
    command.spawn()
}

/// Prepares `command` (of tokio too, through `as_std_mut`) so that its child runs as `owner` (`None`: as we do) in a
/// process group of its own, out of reach of the terminal's Ctrl-C, and gets `death` when the spawning thread ends.
///
/// The spawn fails if the credentials cannot be changed. A child whose parent died before it could ask for the signal
/// ends by itself.
pub fn bind(command: &mut Command, death: Signal, owner: Option<&Owner>) {
    let owner = owner.copied().filter(|owner| !owner.is_ourselves());
    let parent = getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. `become_bound` makes plain system calls
    // on values that were copied beforehand; it neither allocates nor locks.
    unsafe {
        command.pre_exec(move || become_bound(parent, death, owner).map_err(io::Error::from));
    }
}

/// In the child. The order matters: groups need root, so they go before the user; a change of credentials clears the
/// death signal, so it comes after them; and a parent that died before the signal was set is noticed last.
fn become_bound(parent: Pid, death: Signal, owner: Option<Owner>) -> Result<(), Errno> {
    if let Some(owner) = owner {
        setgroups(&[owner.gid])?;
        setgid(owner.gid)?;
        setuid(owner.uid)?;
    }
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    set_pdeathsig(death)?;
    if getppid() == parent {
        Ok(())
    } else {
        // An error here ends the child; nobody is left to read it.
        Err(Errno::ESRCH)
    }
}

#[cfg(test)]
mod tests;
