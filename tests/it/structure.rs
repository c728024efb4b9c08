//! What the sources must not hold. Where the compiler can say it, it does; these are the rest.

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_api::Access;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust source below a folder, tests left out, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// Names of the files that hold any of the words.
fn holding(folder: &str, words: &[&str]) -> Vec<String> {
    let holds = |text: &str| words.iter().any(|word| text.contains(word));
    let mut names: Vec<String> = sources(folder)
        .into_iter()
        .filter(|(_, text)| holds(text))
        .map(|(path, _)| path.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn gate_a3_no_handler_takes_a_tenant() {
    assert_eq!(holding("api/src", &["tenant"]), Vec::<String>::new(), "a tenant comes from authentication alone");
}

#[test]
fn gate_a5_only_health_is_public() {
    let table = baton_api::table();
    let public: Vec<&str> = table.iter().filter(|route| route.access == Access::Public).map(|route| route.path).collect();
    assert_eq!(public, ["/health/live", "/health/ready"]);
}

#[test]
fn gate_c1_one_module_writes_terminal_and_waiting_statuses() {
    // In SQL a status is a quoted literal. Reading one is a comparison; these words can only write it.
    let writing = [
        "status = 'COMPLETED'",
        "status = 'FAILED'",
        "status = 'CANCELLED',",
        "THEN 'CANCELLED'",
        "THEN 'FAILED'",
        "'WAITING_FOR_APPROVAL',",
        "coalesce(w.new_status",
    ];
    let elsewhere: Vec<String> =
        holding("core/src", &writing).into_iter().filter(|name| !name.starts_with("core/src/execution/settle/")).collect();
    assert_eq!(elsewhere, Vec::<String>::new());
    assert!(holding("core/src/execution/settle", &writing).len() >= 3, "the words still find the statements");
}

#[test]
fn only_core_and_the_private_database_hold_sql() {
    for folder in ["api/src", "worker/src", "cli/src"] {
        assert_eq!(holding(folder, &["sqlx::query", "SELECT "]), Vec::<String>::new(), "{folder} asks services");
    }
}

/// Each statement commits by itself: there is no transaction for a request that was given up to leave open.
#[test]
fn case_a18_no_service_opens_a_transaction() {
    for folder in ["core/src", "api/src", "worker/src"] {
        assert_eq!(holding(folder, &[".begin()", ".begin_with(", "\"BEGIN"]), Vec::<String>::new());
    }
}

/// `clippy.toml` refuses what makes a client wherever it is called; this is what clippy cannot name, and that nobody excuses himself.
#[test]
fn gate_d7_no_http_client_is_built_outside_the_guards_module() {
    let products = ["core/src", "api/src", "worker/src", "cli/src"];
    let everywhere = |words: &[&str]| -> Vec<String> { products.iter().flat_map(|folder| holding(folder, words)).collect() };
    let making =
        ["Client::builder()", "reqwest::Client::new", "Client::default()", "ClientBuilder", "reqwest::get(", "blocking::Client"];
    assert_eq!(everywhere(&making), ["core/src/outbound/client.rs"]);
    // hyper is here to serve, its client to load: the bench, which is no product.
    assert_eq!(everywhere(&["hyper::client", "hyper_util::client", "client::conn", "client::legacy"]), Vec::<String>::new());
    let excused = ["cli/src/commands/dev/children.rs", "core/src/clock.rs", "core/src/outbound/client.rs"];
    let mut found = everywhere(&["disallowed_methods", "disallowed_types"]);
    found.sort();
    assert_eq!(found, excused, "the others are excused for the time");
    let clippy = std::fs::read_to_string(root().join("clippy.toml")).unwrap();
    for refused in ["reqwest::Client::new", "reqwest::Client::builder", "reqwest::ClientBuilder::new", "reqwest::get"] {
        assert!(clippy.contains(&format!("\"{refused}\"")), "{refused}");
    }
}

#[test]
fn crates_know_only_whom_they_may_know() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let depends_on = |package: &str| -> Vec<String> {
        let packages = metadata["packages"].as_array().unwrap();
        let package = packages.iter().find(|candidate| candidate["name"] == package).unwrap();
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null());
        normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
    };
    let knows = |package: &str, other: &str| depends_on(package).iter().any(|name| name == other);
    for (package, strangers) in [
        ("baton-core", ["axum", "clap", "nix", "baton-api", "baton-worker", "baton-devdb"].as_slice()),
        ("baton-api", &["baton-worker", "baton-devdb", "clap", "sqlx"]),
        ("baton-worker", &["baton-api", "baton-devdb", "axum", "clap", "nix"]),
        ("baton-devdb", &["baton-core", "baton-api", "baton-worker"]),
    ] {
        for stranger in strangers {
            let optional = *stranger == "nix" && package == "baton-core"; // behind `fault-points` alone
            assert!(optional || !knows(package, stranger), "{package} must not know {stranger}");
        }
    }
}

/// What the tests build has them, or their crash tests would prove nothing; what is shipped is built without dev-dependencies.
#[test]
fn fault_points_are_in_the_tests_binary_and_in_no_other() {
    let features_of_core = |edges: &str| -> String {
        let arguments = ["tree", "--offline", "--locked", "-p", "agentctl", "--depth=1", "-f", "{p} [{f}]", "-e", edges];
        let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.contains("baton-core")).collect()
    };
    assert!(features_of_core("normal").contains("[]"), "the release binary is built from core without features");
    assert!(features_of_core("normal,dev").contains("[fault-points]"), "the tests' binary has them");
    let holds =
        |binary: &Path, name: &str| std::fs::read(binary).unwrap().windows(name.len()).any(|window| window == name.as_bytes());
    assert!(holds(Path::new(env!("CARGO_BIN_EXE_agentctl")), "BATON_FAULTS"), "the tests' binary reads the variable");
}
