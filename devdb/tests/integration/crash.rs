//! `kill -9` of the process that started Postgres. The test binary runs itself to have such a process.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use baton_devdb::{Cluster, Owner, child, testing};
use nix::sys::signal::Signal;

use crate::support::{DataDir, await_until, connect, count, execute, processes_in};

/// Set for a process that is to start the cluster of this data folder, and wait.
const HOLD: &str = "BATON_TEST_HOLD";

/// Set for a process that is to start the shared cluster, write its socket's folder into this file, and wait.
const HOLD_SHARED: &str = "BATON_TEST_HOLD_SHARED";

/// No test of its own: what [`holder`] runs in another process.
#[test]
fn hold() {
    let Some(data_dir) = env::var_os(HOLD) else { return };
    let _cluster = Cluster::start(&testing::options(&data_dir)).expect("a cluster");
    fs::write(Path::new(&data_dir).join("held"), "").expect("a sign that it runs");
    park();
}

/// No test of its own: what [`holder`] runs in another process.
#[test]
fn hold_shared() {
    let Some(file) = env::var_os(HOLD_SHARED) else { return };
    // The first caller's thread ends, as a test's does; Postgres must not end with it.
    let socket_dir = thread::spawn(|| testing::shared().socket_dir()).join().expect("the thread ends");
    fs::write(file, socket_dir.display().to_string()).expect("a sign that it runs");
    park();
}

#[tokio::test]
async fn postgres_ends_with_a_killed_parent_and_starts_again() {
    let folder = DataDir::open("pg");
    let mut parent = holder("crash::hold", HOLD, &folder.path);
    await_until("the cluster runs", || folder.path.join("held").exists());
    let socket = format!("postgres://postgres@localhost/postgres?host={}", folder.path.join("cluster").display());
    execute(&mut connect(&socket).await, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)").await;

    kill(&mut parent);
    // At once: the old one is still shutting down.
    let cluster = folder.start();
    assert_eq!(count(&mut connect(&cluster.url("postgres")).await, "kept").await, 1);
}

#[test]
fn nothing_is_left_of_a_killed_parent() {
    let folder = DataDir::open("pg");
    let mut parent = holder("crash::hold", HOLD, &folder.path);
    await_until("the cluster runs", || folder.path.join("held").exists());

    kill(&mut parent);

    await_until("no process is left", || processes_in(&folder.path).is_empty());
}

#[test]
fn nothing_is_left_of_a_killed_test_process() {
    let folder = DataDir::open("unused");
    let file = folder.path.with_file_name("socket-dir");
    let mut parent = holder("crash::hold_shared", HOLD_SHARED, &file);
    await_until("the cluster runs", || fs::read_to_string(&file).is_ok_and(|path| Path::new(&path).is_dir()));
    let socket_dir = fs::read_to_string(&file).expect("the folder's path");
    assert!(!processes_in(Path::new(&socket_dir)).is_empty(), "Postgres ended with the thread that asked for it");

    kill(&mut parent);

    await_until("no process and no folder is left", || !Path::new(&socket_dir).exists());
}

#[test]
fn a_kill_during_initdb_leaves_nothing_to_trip_over() {
    let folder = DataDir::open("pg");
    let cluster_dir = folder.path.join("cluster");
    let unfinished = || {
        let entries = fs::read_dir(&cluster_dir).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("initdb-")).count()
    };
    let mut parent = holder("crash::hold", HOLD, &folder.path);
    await_until("initdb is at work", || unfinished() > 0);

    kill(&mut parent);
    assert!(!cluster_dir.join("data").exists(), "a cluster under its final name must be complete");

    let _cluster = folder.start();
    assert_eq!(unfinished(), 0);
}

/// Postgres takes any process of its user with the pid in `postmaster.pid` for a postmaster.
#[test]
fn a_reused_pid_in_a_stale_lock_is_no_obstacle() {
    let folder = DataDir::open("pg");
    drop(folder.start());
    let owner = Owner::resolve().expect("an owner");
    let mut sleep = Command::new("sleep");
    sleep.arg("86400").current_dir("/");
    let mut bystander = child::spawn(sleep, Signal::SIGKILL, Some(&owner)).expect("a process of the same user");
    let data = folder.path.join("cluster/data");
    let stale = format!("{}\n{}\n0\n5432\n\n\n\nready\n", bystander.id(), data.display());
    fs::write(data.join("postmaster.pid"), stale).expect("a stale lock");

    let cluster = folder.start();

    assert_ne!(cluster.pid(), bystander.id());
    assert!(bystander.try_wait().expect("a state").is_none(), "the bystander is not ours to end");
    bystander.kill().and_then(|()| bystander.wait()).expect("the bystander ends");
}

/// Runs one of the tests above in a process of its own, told by `variable` what to do.
fn holder(test: &str, variable: &str, value: &Path) -> Child {
    Command::new(env::current_exe().expect("the test binary"))
        .args(["--exact", test])
        .env(variable, value)
        .stdout(Stdio::null())
        .spawn()
        .expect("the test binary runs")
}

fn kill(parent: &mut Child) {
    parent.kill().and_then(|()| parent.wait()).expect("the parent is killed");
}

fn park() -> ! {
    loop {
        thread::park();
    }
}
