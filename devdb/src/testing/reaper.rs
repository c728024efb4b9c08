//! Removes the shared cluster's folders when this process has ended, however it ended. A static is never dropped, and a
//! database per test makes them large.

use std::mem;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// `cat` returns when the other end of its input is closed, which happens when we end. Postgres has its death signal then, and
/// removes its `postmaster.pid` last. After a crash it never does; two seconds are enough for what remains of it to end.
const SCRIPT: &str = r#"
cat
polls=0
while [ -e "$1/data/postmaster.pid" ] && [ $polls -lt 200 ]; do
    sleep 0.01
    polls=$((polls + 1))
done
rm -rf "$@"
"#;

/// Leaves a shell behind that waits for our end and that of the Postgres in `place`, and removes that folder and `others`.
pub(super) fn spawn(place: &Path, others: [&Path; 2]) {
    let reaper = Command::new("sh")
        .args(["-c", SCRIPT, "reaper"])
        .arg(place)
        .args(others)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A Ctrl-C that ends the tests is not meant for it.
        .process_group(0)
        .spawn();
    // Without a shell the folders stay until another test process collects them.
    if let Ok(mut reaper) = reaper {
        // Closed by the kernel, not by us.
        mem::forget(reaper.stdin.take());
    }
}
