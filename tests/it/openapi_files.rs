//! Files that the code writes, and that are committed. `BATON_WRITE=1` writes them.

use std::path::Path;
use std::process::{Command, Stdio};

fn compare(file: &str, written: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("BATON_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, written).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(written.lines()).position(|(committed, written)| committed != written);
    assert!(committed == written, "{file} is out of date, from line {differs:?} on: run `just generate`");
}

/// As people print it: without database and configuration, whatever the environment says.
#[test]
fn gate_a11_the_document_is_committed() {
    let output = Command::new(env!("CARGO_BIN_EXE_agentctl")).arg("openapi").env("DATABASE_URL", "nowhere").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    compare("openapi.yaml", &String::from_utf8(output.stdout).unwrap());
}

#[test]
fn the_reference_of_errors_is_committed() {
    compare("docs/reference/errors.md", &baton_api::errors_reference());
}

/// `openapi | head`: the reader has gone before the end.
#[test]
fn whoever_reads_only_the_beginning_sees_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    let mut process = command.arg("openapi").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
