//! `agentctl run` as a person meets it who has to approve what an agent wants to do.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{RealApp, SHORT_LEASE, Terminal, id};

#[tokio::test]
async fn approving_at_the_terminal_has_the_effect_once() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    assert!(terminal.screen().contains(r#"{"content":"news"}"#), "{}", terminal.screen());
    assert!(app.effects().is_empty());
    terminal.types("approve");
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("Published: true").await;
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}

/// Its text is a stranger's. Elsewhere than at a terminal it is what the model said, byte for byte.
#[tokio::test]
async fn a_model_does_not_steer_the_terminal() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let command = ["run", "deceive", "--agent", "test", "--url", &app.http.url];
    let mut terminal = Terminal::agentctl(&command);
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("A second line.").await;
    let screen = terminal.screen();
    assert!(screen.contains(r"All is well.\u001b[2J\u001b]0;root\u0007\u000d\u009b2K"), "{screen:?}");
    let piped = Command::new(env!("CARGO_BIN_EXE_agentctl")).args(command).output().unwrap();
    assert!(String::from_utf8(piped.stdout).unwrap().contains("All is well.\u{1b}[2J"));
    app.finish().await;
}

#[tokio::test]
async fn denying_at_the_terminal_tells_the_model() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    terminal.types("d");
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("A person denied this call.").await;
    assert!(app.effects().is_empty());
    app.finish().await;
}

#[tokio::test]
async fn a_worker_that_dies_between_approval_and_effect_changes_nothing() {
    let app = RealApp::start(SHORT_LEASE).await;
    // Its second claim is the one after the approval.
    let mut doomed = app.start_worker_with(&[("BATON_FAULTS", "IntentRecorded=kill")]).await;
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    terminal.types("y");
    doomed.ended().await;
    assert!(app.effects().is_empty());
    let _heir = app.start_worker().await;
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("Published: true").await;
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn whoever_answers_first_decides_and_the_terminal_goes_on() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    for (decision, end) in [("approve_once", "Published: true"), ("deny", "A person denied this call.")] {
        let mut terminal = publish(&app);
        terminal.shows("Approve?").await;
        resolve_elsewhere(&app, decision).await;
        // Nobody types.
        assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
        terminal.shows(end).await;
        assert!(terminal.screen().contains("[y/N/d] \r\n! an approval was resolved"), "{}", terminal.screen());
    }
    assert_eq!(app.effects().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn a_prompt_ends_with_its_run_or_its_question_and_the_next_one_has_the_keyboard() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    let (_, approvals) = app.http.get("/v1/approvals?status=PENDING").await;
    let run_id = id(&approvals["items"][0]["run_id"]);
    app.http.cancel(run_id).await;
    assert_eq!(terminal.process.ended().await.code(), Some(1), "{}", terminal.screen());
    terminal.shows("the run was cancelled").await;

    // The call is approved elsewhere; what is typed at the question after it is for that one.
    let mut terminal = Terminal::agentctl(&["run", "everything", "--agent", "test", "--url", &app.http.url]);
    terminal.shows("Approve?").await;
    resolve_elsewhere(&app, "approve_once").await;
    terminal.shows("? Publish it?").await;
    terminal.types("yes");
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("Published: true").await;
    app.finish().await;
}

#[tokio::test]
async fn whoever_may_not_decide_hears_how_others_do_and_goes_on_following() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    let key = format!("[{{algorithm=\"HS256\",secret_file={secret:?}}}]");
    let variables = [
        ("BATON_AUTH__MODE", "jwt"),
        ("BATON_AUTH__ISSUER", "i"),
        ("BATON_AUTH__AUDIENCE", "a"),
        ("BATON_AUTH__KEYS", key.as_str()),
    ];
    let app = RealApp::start(&variables).await;
    let _worker = app.start_worker().await;
    let mint = |role: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
        command.args(["token", "mint", "--tenant", "acme", "--principal", role, "--role", role, "--scope", "demo.write"]);
        command.arg("--secret-file").arg(&secret).args(["--issuer", "i", "--audience", "a"]);
        let minted = command.output().unwrap();
        assert!(minted.status.success(), "{minted:?}");
        String::from_utf8(minted.stdout).unwrap().trim().to_owned()
    };

    let token = mint("member");
    let mut terminal = Terminal::agentctl(&["run", "publish news", "--agent", "test", "--url", &app.http.url, "--token", &token]);
    terminal.shows("Approve?").await;
    terminal.types("y");
    terminal.shows("  deny       curl").await;
    let screen = terminal.screen();
    assert!(screen.contains("approval.resolve") && screen.contains("still following: Ctrl-C leaves"), "{screen}");
    let others = app.http.with_token(&mint("approver"));
    let (_, approvals) = others.get("/v1/approvals").await;
    let approval_id = id(&approvals["items"][0]["id"]);
    others.post(&format!("/v1/approvals/{approval_id}/resolve"), &json!({"decision": "approve_once"})).await;
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("Published: true").await;
    app.finish().await;
}

#[tokio::test]
async fn the_end_of_what_is_typed_ends_the_line_of_its_prompt() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    terminal.ends_typing();
    terminal.shows("[y/N/d] \r\n! left open, and still following").await;
    resolve_elsewhere(&app, "deny").await;
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    app.finish().await;
}

/// What another person does.
async fn resolve_elsewhere(app: &RealApp, decision: &str) {
    let (_, approvals) = app.http.get("/v1/approvals?status=PENDING").await;
    app.http.resolve_all(id(&approvals["items"][0]["run_id"]), decision).await;
}

#[tokio::test]
async fn what_is_not_understood_is_asked_again_and_what_is_left_open_is_followed() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    terminal.types("maybe");
    terminal.shows("Please answer").await;
    terminal.types("n");
    terminal.shows("still following: Ctrl-C leaves").await;
    assert!(app.effects().is_empty());
    resolve_elsewhere(&app, "approve_once").await;
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("Published: true").await;
    app.finish().await;
}

#[tokio::test]
async fn without_a_terminal_nobody_is_waited_for_and_what_is_said_decides() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let folder = tempfile::tempdir().unwrap();
    // The operator's commands are near: `dev` says where its database is.
    let ready = json!({"url": app.http.url, "database_url": app.url, "metrics_url": null, "pids": {"api": 1, "workers": []}});
    std::fs::write(folder.path().join("dev.json"), ready.to_string()).unwrap();
    let data = folder.path().to_str().unwrap();
    let run = async |arguments: &[&str]| {
        let arguments = [&["--data-dir", data, "run", "--agent", "test"], arguments].concat();
        agentctl(&arguments, &[]).await
    };

    let (code, said) = run(&["publish news"]).await;
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains(r#"{"content":"news"}"#), "what it is about: {said}");
    shell(&command_in(&said, "  approve ")).await;
    app.http.run_in(run_id_in(&said), "COMPLETED").await;
    assert_eq!(app.effects().len(), 1);
    shell(&command_in(&said, "agentctl: ")).await; // to its end

    // The same where only an address was given.
    let (code, said) = run(&["publish more", "--url", &app.http.url]).await;
    assert_eq!(code, Some(7), "{said}");
    shell(&command_in(&said, "  deny ")).await;
    app.http.run_in(run_id_in(&said), "COMPLETED").await;
    assert_eq!(app.effects().len(), 1);

    // A program that reads along is nobody to be asked, either.
    let (code, said) = run(&["ask", "--json"]).await;
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains("2  blue"), "{said}");
    shell(&command_in(&said, "  answer ").replace("your answer", "blue")).await;
    app.http.run_in(run_id_in(&said), "COMPLETED").await;
    app.finish().await;
}

/// On a thread of its own: it waits for the process, which has no terminal.
async fn agentctl(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.args(arguments).envs(variables.iter().copied()).env_remove("DATABASE_URL").stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// What stands on the line that begins so, as it would be copied.
fn command_in(said: &str, beginning: &str) -> String {
    let line = said.lines().find(|line| line.starts_with(beginning)).unwrap_or_else(|| panic!("{beginning}: {said}"));
    let quoted = line.split('`').nth(1);
    quoted.unwrap_or_else(|| line.strip_prefix(beginning).unwrap().trim()).to_owned()
}

/// The last line says how to follow the run.
fn run_id_in(said: &str) -> uuid::Uuid {
    let is_id = |word: &&str| word.len() == 36;
    let line = said.lines().last().unwrap();
    line.split([' ', '/', '`']).find(is_id).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

/// As a person pastes it.
async fn shell(command: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_remove("DATABASE_URL").stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || shell.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

#[tokio::test]
async fn a_run_in_the_way_is_named_with_what_helps() {
    let app = RealApp::start(&[]).await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await; // nobody works on it
    let (code, said) = agentctl(&["run", "more", "--session", &session_id.to_string(), "--url", &app.http.url], &[]).await;
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains(&format!("{run_id} is QUEUED")) && !said.contains("active_run_exists"), "{said}");
    let cancel = said.split('`').find(|command| command.contains("/cancel")).unwrap_or_else(|| panic!("{said}"));
    shell(cancel).await;
    assert_eq!(app.http.run(run_id).await["status"], "CANCELLED");

    // Another conflict: what it is to a program is no sentence.
    app.http.close(session_id).await;
    let session = session_id.to_string();
    for (format, has_details) in [(&[][..], false), (&["--json"], true)] {
        let arguments = [&["run", "more", "--session", &session, "--url", &app.http.url], format].concat();
        let (code, said) = agentctl(&arguments, &[]).await;
        assert_eq!((code, said.contains("session_closed")), (Some(5), has_details), "{said}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_and_an_address_that_is_none_is_refused() {
    // Nobody listens on a port that was just free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let (code, said) = agentctl(&["run", "hello"], &[("BATON_URL", &url)]).await;
    assert_eq!(code, Some(6), "{said}");
    let (first, last) = (said.lines().next().unwrap(), said.lines().last().unwrap());
    assert!(first.contains("trying again") && last.contains("is a server running there?") && last.contains("--url"), "{said}");
    assert!(!last.contains("the agent is"), "{said}");
    let (code, said) = agentctl(&["--config", "/no/such/file", "run", "hello", "--url", &url], &[]).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("/no/such/file"), "{said}");
    for none in ["nonsense", "127.0.0.1:7420", "localhost:7420", "ftp://x", "http://", "http://x/?y=z"] {
        let (code, said) = agentctl(&["run", "hello", "--url", none], &[]).await;
        assert_eq!(code, Some(2), "{none}: {said}");
        assert!(said.contains("http://HOST:PORT"), "{none}: {said}");
    }
}

#[tokio::test]
async fn a_question_is_asked_and_answered_at_the_terminal_or_elsewhere() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = Terminal::agentctl(&["run", "ask", "--agent", "test", "--url", &app.http.url]);
    terminal.shows("2  blue").await;
    terminal.types("2");
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("You said blue.").await;

    // Or elsewhere.
    let mut terminal = Terminal::agentctl(&["run", "ask", "--agent", "test", "--url", &app.http.url]);
    terminal.shows("2  blue").await;
    let (_, runs) = app.http.get("/v1/runs?status=WAITING_FOR_USER").await;
    app.http.input(id(&runs["items"][0]["id"]), "red").await;
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("You said red.").await;
    app.finish().await;
}

fn publish(app: &RealApp) -> Terminal {
    Terminal::agentctl(&["run", "publish news", "--agent", "test", "--url", &app.http.url])
}
