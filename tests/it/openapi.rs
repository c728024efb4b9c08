//! The document and the server say the same: every documented answer that can be had cheaply is asked for, and held to it.
//! Answers of all other tests are held to it too (`support/contract.rs`).

use std::cell::RefCell;
use std::collections::BTreeSet;

use baton_core::Code;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HOST, IF_NONE_MATCH, ORIGIN, RANGE};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::contract::{self, Answered};
use crate::support::{Caller, Http, TestApp, message};

const STRANGE: &str = "01900000-0000-7000-8000-000000000000";

/// What no test here brings about: defects, a lost database, races that nobody can arrange from outside.
/// Caps are filled in `server_caps`.
const NOT_HERE: [&str; 5] =
    ["artifact_storage_error", "concurrency_conflict", "internal_error", "rate_limited", "service_unavailable"];

/// Answers that are not errors and need more than one worker at rest; other tests meet them.
const ELSEWHERE: [&str; 2] = ["POST /v1/runs/{run_id}/cancel 202", "GET /health/ready 503"];

/// Asks, holds what is answered to the document, and remembers it as `GET /v1/runs 200` or `GET /v1/runs not_found`.
struct Probe {
    http: Http,
    seen: RefCell<BTreeSet<String>>,
}

impl Probe {
    fn new(http: Http) -> Self {
        Self { http, seen: RefCell::default() }
    }

    fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.http.request(Method::from_bytes(method.as_bytes()).unwrap(), path)
    }

    /// Asks for a route by its pattern.
    async fn ask(&self, route: &str, request: RequestBuilder) -> (StatusCode, Value) {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client.execute(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.unwrap();
        let answered = Answered { method: method.as_str(), path: &path, status: status.as_u16(), headers: &headers, body: &body };
        contract::hold(&answered);
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let what = value["error"]["code"].as_str().map_or_else(|| status.as_u16().to_string(), str::to_owned);
        self.seen.borrow_mut().insert(format!("{route} {what}"));
        (status, value)
    }

    async fn get(&self, route: &str, path: &str) -> (StatusCode, Value) {
        self.ask(&format!("GET {route}"), self.request("GET", path)).await
    }

    async fn post(&self, route: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        self.ask(&format!("POST {route}"), self.request("POST", path).json(body)).await
    }

    /// What is documented and was not seen.
    fn missing(&self, of: impl Fn(&Value, &str) -> Vec<String>) -> Vec<String> {
        let document = baton_api::document();
        let mut wanted = Vec::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let route = format!("{} {path}", method.to_uppercase());
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let response = response["$ref"].as_str().map_or(response, |place| document.pointer(&place[1..]).unwrap());
                    wanted.extend(of(&resolved(&document, response), status).into_iter().map(|what| format!("{route} {what}")));
                }
            }
        }
        let seen = self.seen.borrow();
        wanted.into_iter().filter(|wanted| !seen.contains(wanted)).collect()
    }
}

/// The schemas of a response of JSON, each with what it refers to.
fn resolved(document: &Value, response: &Value) -> Value {
    let schema = &response["content"]["application/json"]["schema"];
    let choices = schema["oneOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    choices
        .iter()
        .map(|choice| choice["$ref"].as_str().map_or(choice, |place| document.pointer(&place[1..]).unwrap()).clone())
        .collect()
}

fn codes(schemas: &Value, _status: &str) -> Vec<String> {
    let code = |schema: &Value| schema["properties"]["error"]["properties"]["code"]["const"].as_str().map(str::to_owned);
    schemas.as_array().unwrap().iter().filter_map(code).collect()
}

fn successes(schemas: &Value, status: &str) -> Vec<String> {
    if codes(schemas, status).is_empty() { vec![status.to_owned()] } else { Vec::new() }
}

/// A path of a route where nothing is.
fn strange(route: &str) -> String {
    let part = |part: &str| match part {
        "{agent_id}" => "nobody".to_owned(),
        part if part.starts_with('{') => STRANGE.to_owned(),
        part => part.to_owned(),
    };
    route.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// What every route refuses, whatever it does.
async fn general(probe: &Probe) {
    let powerless = probe.http.with_caller(Caller { scopes: Some(Vec::new()), ..Caller::new("dev", "dev") });
    for route in baton_api::table() {
        let (name, path) = (format!("{} {}", route.method, route.path), strange(route.path));
        let ask = |http: &Http| http.request(route.method.clone(), &path);
        probe.ask(&name, ask(&probe.http).header(HOST, "example.com")).await;
        probe.ask(&name, ask(&probe.http).header(ORIGIN, "https://elsewhere.example")).await;
        probe.ask(&name, ask(&probe.http).header("x-test-principal", "nobody")).await;
        probe.ask(&name, ask(&powerless)).await;
        probe.ask(&name, ask(&probe.http)).await;
        probe.ask(&name, probe.http.request(route.method.clone(), &format!("{path}?unknown=1"))).await;
        probe.ask(&name, ask(&probe.http).body(vec![b' '; 1024 * 1024 + 1])).await;
        let text = ask(&probe.http).header(CONTENT_TYPE, "text/plain").body("{}");
        probe.ask(&name, text).await; // 415, or 400 where no body is taken
        probe.ask(&name, ask(&probe.http).header(CONTENT_TYPE, "application/json").body(r#"{"unknown":1}"#)).await;
    }
}

/// A run that asks for everything, to its end and beyond.
async fn story(app: &TestApp, probe: &Probe) -> Uuid {
    let create = |body: &Value| probe.request("POST", "/v1/sessions").header("idempotency-key", "a").json(body);
    let (_, session) = probe.ask("POST /v1/sessions", create(&json!({"agent_id": "test"}))).await;
    probe.ask("POST /v1/sessions", create(&json!({"agent_id": "test"}))).await;
    probe.ask("POST /v1/sessions", create(&json!({"agent_id": "gated"}))).await;
    probe.post("/v1/sessions", "/v1/sessions", &json!({"agent_id": "nobody"})).await;
    let session = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    probe.get("/v1/sessions/{session_id}", &session).await;
    let (route, path) = ("/v1/sessions/{session_id}/messages", format!("{session}/messages"));
    let submit = || probe.request("POST", &path).header("idempotency-key", "b").json(&message("everything"));
    let (_, submitted) = probe.ask(&format!("POST {route}"), submit()).await;
    probe.ask(&format!("POST {route}"), submit()).await;
    probe.post(route, &path, &message("another")).await;
    probe.post(route, &path, &json!({"content": []})).await;
    let run_id: Uuid = submitted["run_id"].as_str().unwrap().parse().unwrap();
    let run = format!("/v1/runs/{run_id}");
    probe.post("/v1/runs/{run_id}/input", &format!("{run}/input"), &message("too early")).await;
    probe.post("/v1/runs/{run_id}/input", &format!("{run}/input"), &json!({})).await;
    app.work().await;
    let approval = app.http.open_approvals(run_id).await.remove(0);
    let approval = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
    probe.get("/v1/approvals/{approval_id}", &approval).await;
    probe.get("/v1/approvals/{approval_id}", &format!("{approval}?x=1")).await;
    for decision in ["approve_once", "deny", "maybe"] {
        let path = format!("{approval}/resolve");
        probe.post("/v1/approvals/{approval_id}/resolve", &path, &json!({"decision": decision})).await;
    }
    if app.http.run(run_id).await["status"] == "WAITING_FOR_APPROVAL" {
        app.http.resolve_all(run_id, "approve_once").await;
    }
    app.work().await;
    for text in ["yes", "no"] {
        probe.post("/v1/runs/{run_id}/input", &format!("{run}/input"), &message(text)).await;
    }
    app.work().await;
    run_id
}

/// What can be asked about a run that has ended.
async fn afterwards(app: &TestApp, probe: &Probe, run_id: Uuid) {
    let run = format!("/v1/runs/{run_id}");
    for query in ["", "?wait=1", "?wait=x"] {
        probe.get("/v1/runs/{run_id}", &format!("{run}{query}")).await;
        probe.ask("POST /v1/runs/{run_id}/cancel", probe.request("POST", &format!("{run}/cancel{query}"))).await;
        probe.get("/v1/runs/{run_id}/why", &format!("{run}/why{query}")).await;
    }
    let (route, path) = ("GET /v1/runs/{run_id}/events", format!("{run}/events"));
    let (_, page) = probe.ask(route, probe.request("GET", &path).header(ACCEPT, "application/json")).await;
    let last = page["items"].as_array().unwrap().last().unwrap()["sequence"].to_string();
    for cursor in ["", &last, "99999", "x"] {
        probe.ask(route, probe.request("GET", &path).header("last-event-id", cursor)).await;
    }
    for route in
        ["/health/live", "/health/ready", "/openapi.json", "/v1/sessions", "/v1/runs", "/v1/approvals", "/v1/agents", "/v1/queue"]
    {
        probe.get(route, route).await;
    }
    probe.get("/v1/agents/{agent_id}", "/v1/agents/test").await;
    probe.get("/v1/agents/{agent_id}", "/v1/agents/test?x=1").await;

    let cancelled = app.http.start_run("everything").await;
    app.work().await;
    let approval = app.http.open_approvals(cancelled).await.remove(0);
    app.http.cancel(cancelled).await;
    let path = format!("/v1/approvals/{}/resolve", approval["id"].as_str().unwrap());
    probe.post("/v1/approvals/{approval_id}/resolve", &path, &json!({"decision": "deny"})).await;
}

/// A session of its own, to its deletion.
async fn sessions(app: &TestApp, probe: &Probe) {
    let session_id = app.http.create_session("test").await;
    let (id, busy) = (session_id.to_string(), app.http.submit(session_id, "everything").await);
    let session = format!("/v1/sessions/{id}");
    let close = || probe.ask("POST /v1/sessions/{session_id}/close", probe.request("POST", &format!("{session}/close")));
    let delete =
        |query: &str| probe.ask("DELETE /v1/sessions/{session_id}", probe.request("DELETE", &format!("{session}{query}")));
    close().await;
    delete("").await;
    app.http.cancel(busy).await;
    delete("?x=1").await;
    probe.ask("POST /v1/sessions/{session_id}/close", probe.request("POST", &format!("{session}/close?x=1"))).await;
    close().await;
    for query in ["", "?limit=0"] {
        probe.get("/v1/sessions/{session_id}/messages", &format!("{session}/messages{query}")).await;
    }
    let route = "GET /v1/sessions/{session_id}/events";
    let head: i64 = sqlx::query_scalar("SELECT last_sequence FROM sessions WHERE id = $1")
        .bind(session_id)
        .fetch_one(&app.pool)
        .await
        .unwrap();
    for cursor in ["", &head.to_string(), "99999", "x"] {
        probe.ask(route, probe.request("GET", &format!("{session}/events")).header("last-event-id", cursor)).await;
    }
    delete("").await;
}

async fn artifacts(app: &TestApp, probe: &Probe) {
    app.http.start_run("write a file").await;
    app.work().await;
    let id: Uuid = sqlx::query_scalar("SELECT id FROM artifacts LIMIT 1").fetch_one(&app.pool).await.unwrap();
    let artifact = format!("/v1/artifacts/{id}");
    probe.get("/v1/artifacts/{artifact_id}", &artifact).await;
    let (route, path) = ("GET /v1/artifacts/{artifact_id}/content", format!("{artifact}/content"));
    for (name, value) in [(ACCEPT, "*/*"), (RANGE, "bytes=2-3"), (IF_NONE_MATCH, "*")] {
        probe.ask(route, probe.request("GET", &path).header(name, value)).await;
    }
}

#[tokio::test]
async fn gate_a11_every_route_answers_as_documented() {
    let app = TestApp::start().await;
    let probe = Probe::new(app.http.clone());
    general(&probe).await;
    let run_id = story(&app, &probe).await;
    afterwards(&app, &probe, run_id).await;
    artifacts(&app, &probe).await;
    sessions(&app, &probe).await;
    let is_missing = |missing: &String| !ELSEWHERE.contains(&missing.as_str());
    let never: Vec<String> = probe.missing(successes).into_iter().filter(is_missing).collect();
    assert_eq!(never, Vec::<String>::new(), "documented and never answered");
    let is_missing = |missing: &String| !NOT_HERE.iter().any(|code| missing.ends_with(code));
    let never: Vec<String> = probe.missing(codes).into_iter().filter(is_missing).collect();
    assert_eq!(never, Vec::<String>::new(), "documented and never answered");
    app.finish().await;
}

#[test]
fn gate_a1_every_code_of_a_route_is_in_the_vocabulary() {
    let document = baton_api::document();
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let mut found = BTreeSet::new();
    for operations in document["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let response = response["$ref"].as_str().map_or(response, |place| document.pointer(&place[1..]).unwrap());
                found.extend(codes(&resolved(&document, response), status));
            }
        }
    }
    assert!(found.len() > 10 && found.iter().all(|code| known.contains(code.as_str())), "{found:?}");
}

/// Whatever they may do; who nobody knows is 401, as `gate_a11` sees.
#[tokio::test]
async fn the_document_is_served_to_who_is_known() {
    let app = TestApp::start().await;
    assert_eq!(app.http.get("/openapi.json").await, (StatusCode::OK, baton_api::document()));
    let powerless = app.http.with_caller(Caller { scopes: Some(Vec::new()), ..Caller::new("dev", "dev") });
    assert_eq!(powerless.get("/openapi.json").await.0, StatusCode::OK);
    app.finish().await;
}
