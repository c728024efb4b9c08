//! `http.fetch` as an agent has it: with the machine's own resolver, on a machine whose inside must stay inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

use crate::support::{TestApp, bodies_of};

/// Why the call of a run that reads this has no result: the type of the event, and the reason.
async fn refusal(app: &TestApp, url: &str) -> (&'static str, String) {
    let run_id = app.http.start_run_of("reader", &format!("read {url}")).await;
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    for event_type in ["tool.call.failed", "tool.call.denied"] {
        if let [body] = bodies_of(&app.pool, run_id, event_type).await.as_slice() {
            return (event_type, body["reason_code"].as_str().unwrap().to_owned());
        }
    }
    panic!("{url} was read")
}

#[tokio::test]
async fn gate_d6_no_agent_reads_what_is_inside() {
    let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = inside.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    tokio::spawn(async move {
        while inside.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let app = TestApp::start_with(|config| config.tools.fetch_hosts = vec!["*".into()]).await;
    for (url, event_type, reason) in [
        (format!("http://127.0.0.1:{port}/"), "tool.call.failed", "tool_policy_denied"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "tool.call.failed", "tool_policy_denied"),
        (format!("http://LOCALHOST:{port}/"), "tool.call.failed", "tool_policy_denied"),
        (format!("http://2130706433:{port}/"), "tool.call.failed", "invalid_arguments"),
        ("file:///etc/passwd".into(), "tool.call.failed", "invalid_arguments"),
        // The policy's own rules come first.
        ("http://169.254.169.254/latest/meta-data/".into(), "tool.call.denied", "tool_policy_denied"),
    ] {
        assert_eq!(refusal(&app, &url).await, (event_type, reason.to_owned()), "{url}");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 0);
    app.finish().await;
}

#[tokio::test]
async fn without_hosts_nothing_is_read() {
    let app = TestApp::start().await;
    assert_eq!(refusal(&app, "https://example.com/").await, ("tool.call.failed", "not_configured".into()));
    app.finish().await;
}
