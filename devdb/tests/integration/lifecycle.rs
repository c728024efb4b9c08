//! Start, stop, restart; and what the second one is told.

use std::fs;
use std::process::{self, Command};

use baton_devdb::{Cluster, Error};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{DataDir, await_until, connect, count, execute, processes_in};

#[tokio::test]
async fn keeps_its_data_over_a_stop_a_crash_and_a_second_start() {
    let folder = DataDir::open("pg");
    let mut cluster = folder.start();
    let url = cluster.url("postgres");
    let mut session = connect(&url).await;
    execute(&mut session, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)").await;

    cluster.restart().expect("a restart");
    execute(&mut connect(&url).await, "INSERT INTO kept VALUES (2)").await;

    cluster.kill().expect("a crash");
    cluster.restart().expect("a recovery");
    execute(&mut connect(&url).await, "INSERT INTO kept VALUES (3)").await;

    cluster.stop().expect("a clean stop");
    drop(cluster);
    let cluster = folder.start();

    assert_eq!(cluster.url("postgres"), url, "the address of a data folder does not change");
    assert_eq!(count(&mut connect(&url).await, "kept").await, 3);
}

#[test]
fn leaves_nothing_when_dropped() {
    let folder = DataDir::open("pg");
    let cluster = folder.start();
    assert!(!processes_in(&folder.path).is_empty());

    drop(cluster);

    await_until("no process is left", || processes_in(&folder.path).is_empty());
}

#[test]
fn refuses_a_data_folder_in_use_and_names_the_process() {
    let folder = DataDir::open("pg");
    let _running = folder.start();

    let error = Cluster::start(&folder.options()).expect_err("it is in use");

    assert!(matches!(&error, Error::Locked { pid, .. } if *pid == process::id().to_string()), "{error}");
}

#[test]
fn tells_a_supervisor_that_postgres_died() {
    let folder = DataDir::open("pg");
    let mut cluster = folder.start();
    assert!(cluster.try_wait().expect("a state").is_none());

    let postmaster = Pid::from_raw(cluster.pid().cast_signed());
    kill(postmaster, Signal::SIGKILL).expect("a signal");
    await_until("the end is seen", || cluster.try_wait().expect("a state").is_some());

    cluster.restart().expect("a restart");
    assert!(cluster.try_wait().expect("a state").is_none());
}

#[test]
fn shows_the_log_when_postgres_does_not_start() {
    let folder = DataDir::open("pg");
    let mut cluster = folder.start();
    cluster.stop().expect("a stop");
    let settings = folder.path.join("cluster/data/postgresql.conf");
    fs::write(&settings, "no_such_setting = 1\n").expect("a broken configuration");

    let error = cluster.restart().expect_err("it cannot start");

    assert!(matches!(&error, Error::Start { output, .. } if output.contains("no_such_setting")), "{error}");
}

#[test]
fn has_a_url_that_psql_understands() {
    let folder = DataDir::open("a b?&%#/ü");
    let cluster = folder.start();

    let answer = Command::new(cluster.binaries().program("psql"))
        .args([&cluster.url("postgres"), "-AtXc", "SELECT current_user"])
        // A client's habits must not lead it to another server.
        .env("PGPORT", "1")
        .output()
        .expect("psql runs");

    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "postgres", "{}", String::from_utf8_lossy(&answer.stderr));
}
