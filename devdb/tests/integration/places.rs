//! Data folders that Postgres or a socket cannot live in.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_devdb::{Cluster, testing};
use nix::unistd::Uid;

use crate::support::{DataDir, connect};

#[tokio::test]
async fn a_closed_parent_sends_the_cluster_elsewhere() {
    // Whoever can walk to the folder runs Postgres himself, unless he is root.
    if !Uid::effective().is_root() {
        return;
    }
    let folder = DataDir::closed("pg");
    let cluster = folder.start();
    let elsewhere = pointer(&folder, "cluster.path");

    assert_private_in_var_tmp(&elsewhere);
    assert!(elsewhere.join("data/PG_VERSION").is_file());
    assert!(!folder.path.join("cluster").exists());
    connect(&cluster.url("postgres")).await;

    drop(cluster);
    let again = folder.start();
    assert_eq!(again.socket_dir(), elsewhere);
}

#[tokio::test]
async fn a_long_path_sends_the_socket_elsewhere() {
    let folder = DataDir::open(&"long".repeat(40));
    let cluster = folder.start();
    let elsewhere = pointer(&folder, "socket.path");

    assert_private_in_var_tmp(&elsewhere);
    assert_eq!(cluster.socket_dir(), elsewhere);
    assert!(folder.path.join("cluster/data/PG_VERSION").is_file());
    connect(&cluster.url("postgres")).await;
}

#[tokio::test]
async fn the_cluster_follows_a_data_folder_that_was_moved() {
    let folder = DataDir::closed("before");
    drop(folder.start());
    let moved = folder.path.with_file_name("after");
    fs::rename(&folder.path, &moved).expect("a move");
    let elsewhere = fs::read_to_string(moved.join("cluster.path")).ok();

    let cluster = Cluster::start(&testing::options(&moved)).expect("a cluster");

    if let Some(elsewhere) = elsewhere {
        assert_eq!(cluster.socket_dir(), Path::new(elsewhere.trim_end()));
    }
    connect(&cluster.url("postgres")).await;

    let socket_dir = cluster.socket_dir().to_path_buf();
    drop(cluster);
    Cluster::remove(&moved).expect("nothing uses it");
    assert!(!moved.exists() && !socket_dir.exists(), "what lives elsewhere goes too");
}

fn pointer(folder: &DataDir, name: &str) -> PathBuf {
    let target = fs::read_to_string(folder.path.join(name)).expect("a pointer file");
    PathBuf::from(target.trim_end())
}

fn assert_private_in_var_tmp(folder: &Path) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    assert!(folder.starts_with("/var/tmp") && name.starts_with("baton-"), "{}", folder.display());
    assert_eq!(fs::metadata(folder).expect("the folder").mode() & 0o777, 0o700);
}
