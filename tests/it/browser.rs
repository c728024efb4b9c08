//! The page of docs/clients.md in headless Chromium, against a server that is killed under it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::events::EventType;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{DocumentServer, Process, RealApp, SigningKey, borrowed, claims, jwt_variables, within};

const SECRET: &str = "a secret of the browser, and long enough";
const PAGE: &str = include_str!("../../docs/examples/browser.html");
/// A browser's start, on a machine that does other things too.
const BROWSER_DEADLINE: Duration = Duration::from_secs(90);

/// Cases c8 (a stream that has ended is asked for twice at most) and c26 (no token in an address) with a real `EventSource`.
#[tokio::test]
async fn case_c8_case_c26_a_page_follows_a_run_while_the_api_is_killed_under_it() {
    let folder = tempfile::tempdir().unwrap();
    let page = DocumentServer::start().await;
    page.serve(PAGE.into());
    let mut variables = jwt_variables(&folder, SECRET);
    variables.push(("BATON_SERVER__CORS_ORIGINS", format!("[\"{}\"]", page.url.trim_end_matches('/'))));
    let mut app = RealApp::start(&borrowed(&variables)).await;
    let token = SigningKey::hs256(SECRET.as_bytes()).token(&claims(
        "acme/ada",
        Clock::system().now(),
        &json!({"roles": ["member", "approver"], "scope": "demo.write"}),
    ));
    let address = format!("{}?server={}&agent=test", page.url, app.http.url);
    let mut browser = Browser::open(&folder.path().join("seen"), &[&address, &token, "publish news"]);

    browser.step("following").await;
    app.kill_api();
    app.restart_api().await;
    let _worker = app.start_worker().await;
    browser.step("asked").await;
    app.kill_api();
    app.restart_api().await;
    let seen = browser.step("ended").await;

    assert_eq!((&seen["problem"], &seen["problems"]), (&json!(""), &json!([])));
    assert_eq!(seen["answer"], "Published: true");
    assert_eq!(app.effects().len(), 1);
    let query =
        "SELECT json_build_object('sequence', sequence, 'type', type) FROM events WHERE run_id IS NOT NULL ORDER BY sequence";
    let stored: Vec<Value> = sqlx::query_scalar(query).fetch_all(&app.pool).await.unwrap();
    assert_eq!(seen["events"], Value::Array(stored), "each stored event exactly once, in order");
    let addresses = seen["addresses"].to_string();
    assert!(!addresses.contains(&token), "{addresses}");
    assert!(
        addresses.matches("/events").count() >= 5,
        "it had to come back twice, and was told twice that nothing is missing: {addresses}"
    );
    assert_eq!(seen["cookies"], "", "no script reads the cookie");
    assert_eq!((&seen["requests_after_the_end"], &seen["closed"]), (&json!(2), &json!(true)), "a replay, then 204");
    app.finish().await;
}

/// `EventSource` hands over what it is asked for by name: a type that the page does not name is missing from it.
#[test]
fn the_page_names_every_stored_type_of_a_run() {
    let (names, _) = PAGE.split_once("const sleep").unwrap();
    for event_type in EventType::ALL.iter().filter(|event_type| !event_type.as_str().starts_with("session.")) {
        assert!(names.contains(&format!("\"{event_type}\"")), "{event_type}");
    }
}

struct Browser {
    _process: Process,
    seen: PathBuf,
}

impl Browser {
    /// Plays `page.mjs`, which says in this file how far it is.
    fn open(seen: &Path, arguments: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/browser");
        if !folder.join("node_modules/playwright-core").exists() {
            let install = Command::new("npm").args(["ci", "--silent"]).current_dir(&folder).status();
            assert!(install.is_ok_and(|status| status.success()), "the browser's driver: `npm ci` in tests/browser failed");
        }
        let chromium = std::env::var_os("PATH")
            .and_then(|path| std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|program| program.exists()))
            .expect("a page of the documentation is tried in Chromium: sudo apt-get install chromium nodejs npm");
        let file = File::create(seen).unwrap();
        let mut command = Command::new("node");
        command.arg("page.mjs").arg(chromium).args(arguments).current_dir(&folder).stdout(file);
        Self { _process: Process::new(baton_devdb::child::spawn(command, Signal::SIGKILL, None).unwrap()), seen: seen.into() }
    }

    async fn step(&mut self, step: &str) -> Value {
        let seen = &self.seen;
        within(BROWSER_DEADLINE, step, || async {
            let said = std::fs::read_to_string(seen).unwrap();
            said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|line| line["step"] == step)
        })
        .await
    }
}
