//! Reading runs: lists, waits, reasons, pages of the log, and the stream that a submission answers with.

use std::time::Duration;

use baton_core::Scope;
use reqwest::header::HeaderValue;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Caller, TestApp, eventually, id, message, parse_frames};

#[tokio::test]
async fn a_list_is_filtered_by_session_status_and_time() {
    let app = TestApp::start().await;
    let first = app.http.start_run("noop").await;
    app.work().await;
    let second = app.http.start_run("noop").await;
    let ids = async |query: &str| -> Vec<Uuid> {
        let (status, page) = app.http.get(&format!("/v1/runs{query}")).await;
        assert_eq!(status, StatusCode::OK, "{query}: {page}");
        page["items"].as_array().unwrap().iter().map(|run| id(&run["id"])).collect()
    };
    assert_eq!(ids("").await, [second, first]);
    assert_eq!(ids("?status=QUEUED").await, [second]);
    assert_eq!(ids("?status=QUEUED&status=COMPLETED&limit=1").await, [second]);
    let run = app.http.run(first).await;
    assert_eq!(ids(&format!("?session_id={}", run["session_id"].as_str().unwrap())).await, [first]);
    let created = run["created_at"].as_str().unwrap();
    assert_eq!(ids(&format!("?created_after={created}")).await, [second]);
    assert_eq!(ids(&format!("?created_before={created}")).await, [] as [Uuid; 0]);

    for wrong in ["?status=DONE", "?session_id=1", "?created_after=yesterday", "?limit=0", "?order=asc", "?cursor=x"] {
        assert_eq!(app.http.get(&format!("/v1/runs{wrong}")).await.0, StatusCode::BAD_REQUEST, "{wrong}");
    }
    app.http.cancel(second).await;
    app.finish().await;
}

/// The database filters, and not whoever cuts the pages.
#[tokio::test]
async fn case_j9_a_filter_that_one_row_passes_empties_no_page() {
    let app = TestApp::start().await;
    let first = app.http.start_run("noop").await;
    app.work().await;
    for _ in 0..10 {
        app.http.cancel(app.http.start_run("noop").await).await;
    }
    let (_, page) = app.http.get("/v1/runs?status=COMPLETED&limit=1").await;
    assert_eq!((id(&page["items"][0]["id"]), page["next_cursor"].as_str()), (first, None), "{page}");
    app.finish().await;
}

#[tokio::test]
async fn a_read_waits_until_the_run_has_ended_or_needs_somebody() {
    let app = TestApp::start().await;
    for (text, status) in [("noop", "COMPLETED"), ("publish news", "WAITING_FOR_APPROVAL"), ("ask", "WAITING_FOR_USER")] {
        let run_id = app.http.start_run(text).await;
        let path = format!("/v1/runs/{run_id}?wait=30");
        let (answer, ()) = tokio::join!(app.http.get(&path), app.work());
        assert_eq!(answer.1["status"], status, "{text}");
        // At once, the second time.
        assert_eq!(app.http.get(&path).await.1["status"], status);
        app.http.cancel(run_id).await;
    }
    let idle = app.http.start_run("noop").await;
    let (status, run) = app.http.get(&format!("/v1/runs/{idle}?wait=1")).await;
    assert_eq!((status, &run["status"]), (StatusCode::OK, &json!("QUEUED")), "as it is, when the time is over");
    for wrong in ["61", "-1", "x", "1.5"] {
        assert_eq!(app.http.get(&format!("/v1/runs/{idle}?wait={wrong}")).await.0, StatusCode::BAD_REQUEST, "{wrong}");
    }
    assert_eq!(app.http.get(&format!("/v1/runs/{}?wait=x", Uuid::nil())).await.0, StatusCode::NOT_FOUND, "404 before 400");
    app.http.cancel(idle).await;
    app.finish().await;
}

#[tokio::test]
async fn a_cancel_waits_until_it_has_settled() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("wait 60").await;
    let worker = app.worker.clone();
    let execution = tokio::spawn(async move { worker.tick().await.unwrap() });
    eventually("the model is asked", || async { (app.http.run(run_id).await["step_count"] == 1).then_some(()) }).await;
    let cancelling = async {
        let (status, run) = app.http.request(Method::POST, &format!("/v1/runs/{run_id}/cancel?wait=30")).send_json().await;
        assert_eq!((status, &run["status"]), (StatusCode::OK, &json!("CANCELLED")));
    };
    let seeing = async {
        eventually("the request is there", || async { (!app.http.run(run_id).await["cancel"].is_null()).then_some(()) }).await;
        app.worker.renew().await.unwrap();
    };
    tokio::join!(cancelling, seeing);
    execution.await.unwrap();
    app.finish().await;
}

#[tokio::test]
async fn why_says_what_a_run_waits_for() {
    let app = TestApp::start_with(|config| config.tenant.max_running = Some(1)).await;
    let why = async |run_id: Uuid| -> Value {
        let (status, why) = app.http.get(&format!("/v1/runs/{run_id}/why")).await;
        assert_eq!(status, StatusCode::OK, "{why}");
        why
    };
    let waiting = app.http.start_run("publish news").await;
    assert_eq!(why(waiting).await["because"], "queued_behind");
    app.work().await;
    let said = why(waiting).await;
    assert_eq!((&said["because"], said["approval_ids"].as_array().unwrap().len()), (&json!("waiting_for_approval"), 1));
    assert!(said["until"].is_string() && said["next"].is_string(), "{said}");

    let asking = app.http.start_run("ask").await;
    app.work().await;
    assert_eq!(why(asking).await["because"], "waiting_for_user");
    assert_eq!(why(asking).await["question_id"], app.http.run(asking).await["waiting_for"]["question_id"]);

    let executing = app.http.start_run("wait 60").await;
    let worker = app.worker.clone();
    let execution = tokio::spawn(async move { worker.tick().await.unwrap() });
    app.http.run_in(executing, "RUNNING").await;
    assert_eq!(why(executing).await["because"], "executing");
    assert!(why(executing).await["worker_seen_at"].is_string());
    let queued = app.http.start_run("noop").await;
    assert_eq!(why(queued).await["because"], "tenant_at_capacity");
    app.http.cancel(executing).await;
    assert_eq!(why(executing).await["because"], "cancelling");
    app.worker.renew().await.unwrap();
    execution.await.unwrap();
    assert_eq!(why(executing).await["because"], "finished");

    app.expire_workers().await;
    assert_eq!(why(queued).await["because"], "no_worker_for_class");
    sqlx::query("UPDATE runs SET scheduled_for = now() + interval '1 minute' WHERE id = $1")
        .bind(queued)
        .execute(&app.pool)
        .await
        .unwrap();
    assert_eq!(why(queued).await["because"], "backing_off");
    for run_id in [waiting, asking, queued] {
        app.http.cancel(run_id).await;
    }
    app.finish().await;
}

#[tokio::test]
async fn the_log_of_a_run_and_of_a_session_comes_in_pages_to_those_who_ask_for_json() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let first = app.http.submit(session_id, "work").await;
    app.work().await;
    app.http.submit(session_id, "noop").await;
    app.work().await;
    let stored = async |whose: &str, id: Uuid| -> Vec<i64> {
        let query = format!("SELECT sequence FROM events WHERE {whose} = $1 ORDER BY sequence");
        sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(id).fetch_all(&app.pool).await.unwrap()
    };
    for (path, expected) in [
        (format!("/v1/runs/{first}/events"), stored("run_id", first).await),
        (format!("/v1/sessions/{session_id}/events"), stored("session_id", session_id).await),
    ] {
        let page = async |query: &str| {
            let request = app.http.request(Method::GET, &format!("{path}{query}")).header("Accept", "application/json");
            let response = request.send().await.unwrap();
            let status = response.status();
            (status, response.json::<Value>().await.unwrap())
        };
        let (mut after, mut sequences) = (0, Vec::new());
        loop {
            let (status, events) = page(&format!("?after={after}&limit=5")).await;
            assert_eq!(status, StatusCode::OK, "{events}");
            let items = events["items"].as_array().unwrap();
            assert!(items.len() <= 5);
            sequences.extend(items.iter().map(|event| event["sequence"].as_i64().unwrap()));
            match events["next_cursor"].as_str() {
                Some(next) => after = next.parse().unwrap(),
                None => break,
            }
        }
        assert_eq!(sequences, expected, "{path}");
        let head = page(&format!("?after={}", sequences[sequences.len() - 1])).await;
        assert_eq!((head.0, &head.1["items"]), (StatusCode::OK, &json!([])));
        assert_eq!(page("?after=9999").await.0, StatusCode::CONFLICT, "beyond the log");
        for wrong in ["?limit=0", "?after=x", "?last_event_id=1"] {
            assert_eq!(page(wrong).await.0, StatusCode::BAD_REQUEST, "{wrong}");
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn a_submission_may_be_answered_with_the_runs_stream() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    let submit = || {
        let request = app.http.request(Method::POST, &path).json(&message("noop")).header("Idempotency-Key", "k");
        request.header("Accept", "text/event-stream").timeout(Duration::from_secs(30)).send()
    };
    let first = submit().await.unwrap();
    assert_eq!(first.status(), StatusCode::OK);
    let run_id: Uuid = first.headers()["baton-run-id"].to_str().unwrap().parse().unwrap();
    let (bytes, ()) = tokio::join!(async { first.bytes().await.unwrap() }, app.work());
    let events = |bytes: &[u8]| -> Vec<i64> { parse_frames(bytes).iter().filter_map(|frame| frame.id).collect() };
    let followed = events(&bytes);
    assert!(followed.len() > 5, "{followed:?}");

    // The same again is the same run, from its start.
    let again = submit().await.unwrap();
    assert_eq!(again.headers()["baton-run-id"].to_str().unwrap(), run_id.to_string());
    assert_eq!((again.status(), &again.headers()["idempotency-replayed"]), (StatusCode::OK, &HeaderValue::from_static("true")));
    assert_eq!(events(&again.bytes().await.unwrap()), followed);

    // Who may not read gets nothing stored.
    let writer = Caller { scopes: Some(vec![Scope::RunWrite]), ..Caller::new("dev", "dev") };
    let request = app.http.with_caller(writer).request(Method::POST, &path).json(&message("noop"));
    assert_eq!(request.header("Accept", "text/event-stream").send().await.unwrap().status(), StatusCode::FORBIDDEN);
    let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM runs").fetch_one(&app.pool).await.unwrap();
    assert_eq!(runs, 1);
    // Errors before the first byte are envelopes.
    let missing = app.http.request(Method::POST, &format!("/v1/sessions/{}/messages", Uuid::nil())).json(&message("noop"));
    let missing = missing.header("Accept", "text/event-stream").send().await.unwrap();
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    assert_eq!(missing.json::<Value>().await.unwrap()["error"]["code"], "not_found");
    app.finish().await;
}

/// The answer of a request, read as JSON.
trait SendJson {
    async fn send_json(self) -> (StatusCode, Value);
}

impl SendJson for reqwest::RequestBuilder {
    async fn send_json(self) -> (StatusCode, Value) {
        let response = self.send().await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap())
    }
}
