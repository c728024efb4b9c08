//! What was said in a session, as its users read it.

use baton_core::Scope;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Caller, Http, TestApp};

fn path(session_id: Uuid, query: &str) -> String {
    format!("/v1/sessions/{session_id}/messages{query}")
}

/// All items, page by page, and how many pages those were.
async fn walk(http: &Http, session_id: Uuid, limit: u32) -> (Vec<Value>, usize) {
    let (mut items, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let (status, page) = http.get(&path(session_id, &format!("?limit={limit}{cursor}"))).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        pages += 1;
        assert!(pages <= 100, "it never ends");
        let more = page["items"].as_array().unwrap();
        assert!(more.len() <= limit as usize);
        items.extend(more.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (items, pages),
        }
    }
}

#[tokio::test]
async fn a_transcript_is_what_people_and_the_agent_said_in_order() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    assert_eq!(app.http.get(&path(session_id, "")).await.1, json!({"items": [], "next_cursor": null}));
    let first = app.http.submit(session_id, "ask").await;
    app.work().await;
    app.http.input(first, "red").await;
    app.work().await;
    let second = app.http.submit(session_id, "work").await;
    app.work().await;

    let (items, pages) = walk(&app.http, session_id, 200).await;
    let told: Vec<Value> =
        items.iter().map(|item| json!([item["run_id"], item["role"], item["kind"], item["content"][0]["text"]])).collect();
    let expected = [
        json!([first, "user", "message", "ask"]),
        json!([first, "assistant", "message", "A question. "]),
        json!([first, "assistant", "question", "Which colour?"]),
        json!([first, "user", "answer", "red"]),
        json!([first, "assistant", "message", "You said red."]),
        json!([second, "user", "message", "work"]),
        json!([second, "assistant", "message", "First, two sums. "]),
        json!([second, "assistant", "message", "The answer is 1000."]),
    ];
    assert_eq!((told, pages), (expected.to_vec(), 1));
    let names: Vec<&String> = items[0].as_object().unwrap().keys().collect();
    assert_eq!(names, ["content", "created_at", "kind", "role", "run_id", "sequence"]);
    assert!(items.windows(2).all(|pair| pair[0]["sequence"].as_i64() < pair[1]["sequence"].as_i64()));
    assert!(items.iter().all(|item| item["content"] == json!([{"text": item["content"][0]["text"], "type": "text"}])));

    for limit in 1..=9 {
        let (paged, pages) = walk(&app.http, session_id, limit).await;
        assert_eq!((paged, pages), (items.clone(), items.len().div_ceil(limit as usize)), "limit {limit}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_page_is_bounded_in_bytes_and_goes_on() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let long: Vec<String> = (0..9).map(|number: u8| char::from(b'a' + number).to_string().repeat(190_000)).collect();
    for text in &long {
        app.http.submit(session_id, text).await;
        app.work().await;
    }
    let first = app.http.get(&path(session_id, "?limit=200")).await.1;
    let bytes = first.to_string().len();
    assert!((1_000_000..1_500_000).contains(&bytes) && first["next_cursor"].is_string(), "{bytes} bytes");
    let (items, _) = walk(&app.http, session_id, 200).await;
    let said = items.iter().filter(|item| item["role"] == "user").map(|item| item["content"][0]["text"].as_str().unwrap());
    assert_eq!(said.collect::<Vec<_>>(), long);
    app.finish().await;
}

#[tokio::test]
async fn transcripts_and_lists_are_refused_in_the_order_of_the_checks() {
    let app = TestApp::start().await;
    let owner = app.http.with_caller(Caller::new("acme", "alice"));
    let session_id = owner.create_session("test").await;
    let scoped = |principal: &str, scopes: &[Scope]| {
        app.http.with_caller(Caller { scopes: Some(scopes.to_vec()), ..Caller::new("acme", principal) })
    };
    let row_cursor = "A".repeat(43);
    for (http, id, query, expected) in [
        (scoped("alice", &[Scope::RunRead]), session_id.to_string(), "", StatusCode::FORBIDDEN),
        (scoped("bob", &[Scope::SessionRead]), session_id.to_string(), "", StatusCode::NOT_FOUND),
        (scoped("bob", &[Scope::SessionRead]), session_id.to_string(), "?limit=0", StatusCode::NOT_FOUND),
        (scoped("bob", &[Scope::SessionRead, Scope::OperatorRead]), session_id.to_string(), "", StatusCode::OK),
        (app.http.with_caller(Caller::new("other", "alice")), session_id.to_string(), "", StatusCode::NOT_FOUND),
        (owner.clone(), "x".into(), "?limit=0", StatusCode::NOT_FOUND),
        (owner.clone(), session_id.to_string(), "?limit=0", StatusCode::BAD_REQUEST),
        (owner.clone(), session_id.to_string(), "?cursor=1", StatusCode::BAD_REQUEST),
        (owner.clone(), session_id.to_string(), &format!("?cursor={row_cursor}"), StatusCode::BAD_REQUEST),
        (owner.clone(), session_id.to_string(), "?role=user", StatusCode::BAD_REQUEST),
    ] {
        let (status, answer) = http.get(&format!("/v1/sessions/{id}/messages{query}")).await;
        assert_eq!(status, expected, "{id}{query}: {answer}");
    }
    let listed = |http: Http| async move {
        let (status, page) = http.get("/v1/sessions").await;
        (status, page["items"].as_array().map(Vec::len))
    };
    assert_eq!(listed(scoped("alice", &[Scope::RunRead])).await, (StatusCode::FORBIDDEN, None));
    assert_eq!(listed(owner.clone()).await, (StatusCode::OK, Some(1)));
    assert_eq!(listed(scoped("bob", &[Scope::SessionRead])).await, (StatusCode::OK, Some(0)));
    assert_eq!(listed(scoped("bob", &[Scope::SessionRead, Scope::OperatorRead])).await, (StatusCode::OK, Some(1)));
    let elsewhere = Caller { scopes: Some(Scope::ALL.to_vec()), ..Caller::new("other", "alice") };
    assert_eq!(listed(app.http.with_caller(elsewhere)).await, (StatusCode::OK, Some(0)));
    for query in ["?status=ACTIVE", "?limit=x", "?cursor=x"] {
        assert_eq!(owner.get(&format!("/v1/sessions{query}")).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
    app.finish().await;
}
