//! The API as its users call it.

use baton_core::Scope;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::contract::{self, Answered};
use super::wait::eventually;

/// Who asks, where the test's authenticator answers.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: String,
    pub(crate) principal: String,
    /// None: every scope.
    pub(crate) scopes: Option<Vec<Scope>>,
}

impl Caller {
    pub(crate) fn new(tenant: &str, principal: &str) -> Self {
        Self { tenant: tenant.into(), principal: principal.into(), scopes: None }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Http {
    pub(crate) client: reqwest::Client,
    pub(crate) url: String,
    caller: Option<Caller>,
    token: Option<String>,
}

impl Http {
    #[expect(clippy::disallowed_methods, reason = "the tests are the clients here")]
    pub(crate) fn new(url: String) -> Self {
        Self { client: reqwest::Client::builder().no_proxy().build().unwrap(), url, caller: None, token: None }
    }

    pub(crate) fn with_caller(&self, caller: Caller) -> Self {
        Self { caller: Some(caller), ..self.clone() }
    }

    /// Where tokens are asked for.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let Some(caller) = &self.caller else { return request };
        let request = request.header("x-test-principal", format!("{}/{}", caller.tenant, caller.principal));
        match &caller.scopes {
            Some(scopes) => request.header("x-test-scopes", scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::DELETE, path)).await
    }

    /// A POST without a body.
    pub(crate) async fn ask(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path)).await
    }

    pub(crate) async fn close(&self, session_id: Uuid) -> (StatusCode, Value) {
        self.ask(&format!("/v1/sessions/{session_id}/close")).await
    }

    pub(crate) async fn create_session(&self, agent_id: &str) -> Uuid {
        let (status, session) = self.post("/v1/sessions", &json!({"agent_id": agent_id})).await;
        assert_eq!(status, StatusCode::CREATED, "{session}");
        id(&session["id"])
    }

    pub(crate) async fn submit(&self, session_id: Uuid, text: &str) -> Uuid {
        let (status, run) = self.post(&format!("/v1/sessions/{session_id}/messages"), &message(text)).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{run}");
        id(&run["run_id"])
    }

    /// A new session of the agent `test`, and a run in it.
    pub(crate) async fn start_run(&self, text: &str) -> Uuid {
        self.start_run_of("test", text).await
    }

    pub(crate) async fn start_run_of(&self, agent_id: &str, text: &str) -> Uuid {
        let session_id = self.create_session(agent_id).await;
        self.submit(session_id, text).await
    }

    pub(crate) async fn run(&self, run_id: Uuid) -> Value {
        let (status, run) = self.get(&format!("/v1/runs/{run_id}")).await;
        assert_eq!(status, StatusCode::OK, "{run}");
        run
    }

    pub(crate) async fn cancel(&self, run_id: Uuid) -> (StatusCode, Value) {
        self.ask(&format!("/v1/runs/{run_id}/cancel")).await
    }

    /// The open approvals of a run that waits for them, in the order of their calls.
    pub(crate) async fn open_approvals(&self, run_id: Uuid) -> Vec<Value> {
        let run = self.run_in(run_id, "WAITING_FOR_APPROVAL").await;
        let ids = run["waiting_for"]["approval_ids"].as_array().unwrap().iter().map(id);
        let mut approvals = Vec::new();
        for id in ids {
            let (status, approval) = self.get(&format!("/v1/approvals/{id}")).await;
            assert_eq!(status, StatusCode::OK, "{approval}");
            approvals.push(approval);
        }
        approvals
    }

    pub(crate) async fn resolve(&self, approval: &Value, decision: &str) -> (StatusCode, Value) {
        let path = format!("/v1/approvals/{}/resolve", id(&approval["id"]));
        self.post(&path, &json!({"decision": decision})).await
    }

    /// Resolves all open approvals of a run that waits for them.
    pub(crate) async fn resolve_all(&self, run_id: Uuid, decision: &str) {
        for approval in self.open_approvals(run_id).await {
            let (status, resolved) = self.resolve(&approval, decision).await;
            assert_eq!(status, StatusCode::OK, "{resolved}");
        }
    }

    pub(crate) async fn input(&self, run_id: Uuid, text: &str) -> (StatusCode, Value) {
        self.post(&format!("/v1/runs/{run_id}/input"), &message(text)).await
    }

    /// The run, once it has this status.
    pub(crate) async fn run_in(&self, run_id: Uuid, status: &str) -> Value {
        eventually(&format!("run {run_id} is {status}"), || async {
            let run = self.run(run_id).await;
            (run["status"] == status).then_some(run)
        })
        .await
    }
}

pub(crate) fn message(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

pub(crate) fn id(value: &Value) -> Uuid {
    value.as_str().unwrap().parse().unwrap()
}

/// Sends a request, and holds what is answered to the document.
async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let (client, request) = request.build_split();
    let request = request.unwrap();
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let response = client.execute(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.bytes().await.unwrap();
    let answered = Answered { method: method.as_str(), path: &path, status: status.as_u16(), headers: &headers, body: &body };
    contract::hold(&answered);
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
}
