//! `agentctl run` as a person meets it who has to approve what an agent wants to do.

use crate::support::{RealApp, SHORT_LEASE, Terminal, id};

#[tokio::test]
async fn approving_at_the_terminal_has_the_effect_once() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    assert!(terminal.screen().contains(r#"{"content":"news"}"#), "{}", terminal.screen());
    assert!(app.effects().is_empty());
    terminal.types("y");
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("Published: true").await;
    assert_eq!(app.effects().len(), 1);
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
    let mut terminal = publish(&app);
    terminal.shows("Approve?").await;
    let (_, approvals) = app.http.get("/v1/approvals").await;
    app.http.resolve_all(id(&approvals["items"][0]["run_id"]), "deny").await;
    terminal.types("y"); // too late
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("A person denied this call.").await;
    assert!(app.effects().is_empty());
    app.finish().await;
}

#[tokio::test]
async fn a_question_is_asked_and_answered_at_the_terminal() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let mut terminal = Terminal::agentctl(&["run", "ask", "--agent", "test", "--url", &app.http.url]);
    terminal.shows("2  blue").await;
    terminal.types("2");
    assert!(terminal.process.ended().await.success(), "{}", terminal.screen());
    terminal.shows("You said blue.").await;
    app.finish().await;
}

fn publish(app: &RealApp) -> Terminal {
    Terminal::agentctl(&["run", "publish news", "--agent", "test", "--url", &app.http.url])
}
