use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::thread;

use nix::unistd::getpgid;

use super::*;

/// Longer than any test run: a child that is not ended by its death signal fails the test by hanging it.
const FOREVER_SECS: &str = "86400";

fn sleeping() -> Command {
    let mut command = Command::new("sleep");
    command.arg(FOREVER_SECS).current_dir("/");
    command
}

#[test]
fn ends_with_the_thread_that_spawned_it() {
    let spawner = thread::spawn(|| spawn(sleeping(), Signal::SIGTERM, None).expect("a child"));
    let mut child = spawner.join().expect("the spawner ends");

    let status = child.wait().expect("the child ends");

    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn runs_as_its_owner_in_a_group_of_its_own() {
    let owner = Owner::resolve().expect("an owner");
    let mut child = spawn(sleeping(), Signal::SIGKILL, Some(&owner)).expect("a child");
    let pid = Pid::from_raw(child.id().cast_signed());

    let group = getpgid(Some(pid)).expect("a process group");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the child's status");
    child.kill().and_then(|()| child.wait()).expect("the child ends");

    assert_eq!(group, pid);
    assert_ids(&status, "Uid:", owner.uid.as_raw());
    assert_ids(&status, "Gid:", owner.gid.as_raw());
    if !owner.is_ourselves() {
        assert_eq!(ids(&status, "Groups:"), [owner.gid.as_raw()], "no group of root's may remain");
    }
}

#[tokio::test]
async fn binds_a_command_of_tokio() {
    let mut command = tokio::process::Command::new("true");
    bind(command.as_std_mut(), Signal::SIGKILL, None);

    let status = command.status().await.expect("the command runs");

    assert!(status.success());
}

/// Real, effective, saved and file-system id.
fn assert_ids(status: &str, field: &str, expected: u32) {
    assert_eq!(ids(status, field), [expected; 4], "{field}");
}

fn ids(status: &str, field: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.split_whitespace().map(|id| id.parse().expect("an id")).collect()
}
