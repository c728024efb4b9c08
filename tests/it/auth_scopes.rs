//! Who may do what, on every route there is: the matrices come from the table of routes.

use baton_api::Access;
use baton_core::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Http, SigningKey, TestApp, claims, id, jwt, message};

const SECRET: &str = "a secret of the tests, and long enough";
const STRANGE: &str = "01900000-0000-7000-8000-000000000000";

async fn app() -> TestApp {
    TestApp::start_with(|config| jwt(config, Some(SECRET))).await
}

/// A client of `tenant/principal` with these scopes.
fn client(app: &TestApp, who: &str, scopes: impl IntoIterator<Item = Scope>) -> Http {
    let scopes = scopes.into_iter().map(|scope| scope.to_string()).collect::<Vec<_>>().join(" ");
    let claims = claims(who, app.clock.now(), &json!({ "scope": scopes }));
    app.http.with_token(&SigningKey::hs256(SECRET.as_bytes()).token(&claims))
}

fn without(scope: Scope) -> impl Iterator<Item = Scope> {
    Scope::ALL.iter().copied().filter(move |other| *other != scope)
}

/// What is there, of one owner.
struct Owned {
    session: Uuid,
    run: Uuid,
    approval: Uuid,
    artifact: Uuid,
}

/// The routes that name something that somebody owns. Agents are everybody's.
fn of_owned() -> Vec<baton_api::Route> {
    baton_api::table().into_iter().filter(|route| route.path.contains('{') && !route.path.contains("{agent_id}")).collect()
}

impl Owned {
    async fn of(app: &TestApp, http: &Http) -> Self {
        let session = http.create_session("test").await;
        let run = http.submit(session, "publish it").await;
        app.work().await;
        let approval = id(&http.open_approvals(run).await[0]["id"]);
        let other = http.create_session("test").await;
        let writing = http.submit(other, "write a file").await;
        app.work().await;
        let query = sqlx::query_scalar("SELECT id FROM artifacts WHERE run_id = $1").bind(writing);
        let artifact = query.fetch_one(&app.pool).await.unwrap();
        Self { session, run, approval, artifact }
    }

    fn path(&self, pattern: &str) -> String {
        let path = pattern.replace("{session_id}", &self.session.to_string()).replace("{run_id}", &self.run.to_string());
        path.replace("{approval_id}", &self.approval.to_string()).replace("{artifact_id}", &self.artifact.to_string())
    }
}

fn strange(pattern: &str) -> String {
    let id: Uuid = STRANGE.parse().unwrap();
    Owned { session: id, run: id, approval: id, artifact: id }.path(pattern).replace("{agent_id}", "nobody")
}

/// The answer without what differs between two of the same.
async fn answer(http: &Http, method: &Method, path: &str, header: Option<(&str, &str)>) -> (StatusCode, Vec<String>, Value) {
    let mut request = http.request(method.clone(), path);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    if *method != Method::POST {
        // The same path may be read.
    } else if path.ends_with("/resolve") {
        request = request.json(&json!({"decision": "deny"}));
    } else if path.ends_with("/messages") || path.ends_with("/input") {
        request = request.json(&message("hello"));
    }
    let response = request.send().await.unwrap();
    let headers = response.headers().keys().map(ToString::to_string).collect();
    let status = response.status();
    let mut body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default();
    if let Some(error) = body["error"].as_object_mut() {
        error.remove("request_id").unwrap();
    }
    (status, headers, body)
}

#[tokio::test]
async fn case_i12_each_route_asks_for_its_own_scope() {
    let app = app().await;
    let nothing = client(&app, "acme/ada", []);
    for route in baton_api::table() {
        let path = strange(route.path);
        let status = async |http: &Http| answer(http, &route.method, &path, None).await.0;
        match route.access {
            Access::Public => assert_eq!(status(&app.http).await, StatusCode::OK, "{path}"),
            Access::Authenticated => {
                assert_eq!(status(&app.http).await, StatusCode::UNAUTHORIZED, "{path}");
                assert!(status(&nothing).await.is_success(), "{path}");
            }
            Access::Scope(scope) => {
                assert_eq!(status(&app.http).await, StatusCode::UNAUTHORIZED, "{path}");
                assert_eq!(status(&nothing).await, StatusCode::FORBIDDEN, "{path} without any scope");
                let others = client(&app, "acme/ada", without(scope));
                assert_eq!(status(&others).await, StatusCode::FORBIDDEN, "{path} without {scope}");
                let enough = status(&client(&app, "acme/ada", [scope])).await;
                assert!(![StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&enough), "{path} with {scope}: {enough}");
            }
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_a4_case_i9_g1_g3_what_is_anothers_is_not_there() {
    let app = app().await;
    let owned = Owned::of(&app, &client(&app, "acme/ada", without(Scope::OperatorRead))).await;
    // Of another tenant with every scope, and of the same tenant with all but those that cover it.
    let foreigner = client(&app, "other/ada", Scope::ALL.iter().copied());
    let neighbour = client(&app, "acme/bob", without(Scope::OperatorRead));
    let mut compared = 0;
    for route in &of_owned() {
        let (theirs, nowhere) = (owned.path(route.path), strange(route.path));
        for http in [&foreigner, &neighbour] {
            if std::ptr::eq(http, &neighbour) && route.path.contains("approval") {
                continue; // those are the tenant's
            }
            let refused = answer(http, &route.method, &theirs, None).await;
            assert_eq!(refused, answer(http, &route.method, &nowhere, None).await, "{} {theirs}", route.method);
            assert_eq!(refused.0, StatusCode::NOT_FOUND, "{} {theirs}", route.method);
            compared += 1;
        }
    }
    assert!(compared >= 14, "{compared} are compared");
    app.finish().await;
}

#[tokio::test]
async fn case_i11_no_header_chooses_the_tenant() {
    let app = app().await;
    let (ada, eve) =
        (client(&app, "acme/ada", Scope::ALL.iter().copied()), client(&app, "other/eve", Scope::ALL.iter().copied()));
    let (of_ada, of_eve) = (Owned::of(&app, &ada).await, Owned::of(&app, &eve).await);
    for header in ["x-tenant", "x-tenant-id", "x-test-principal", "tenant", "x-org-id", "x-forwarded-user"] {
        for route in of_owned().iter().filter(|route| route.method == Method::GET) {
            if route.path.ends_with("/events") {
                continue; // a run that waits has a stream without an end
            }
            let claim = Some((header, "acme/ada"));
            // First the owner, so that whatever is remembered of an answer is remembered.
            let own = answer(&ada, &route.method, &of_ada.path(route.path), None).await;
            assert_eq!(own.0, StatusCode::OK, "{}", route.path);
            let stolen = answer(&eve, &route.method, &of_ada.path(route.path), claim).await;
            assert_eq!(stolen.0, StatusCode::NOT_FOUND, "{} with {header}", route.path);
            let (mine, bare) = (answer(&eve, &route.method, &of_eve.path(route.path), claim).await, of_eve.path(route.path));
            assert_eq!(mine, answer(&eve, &route.method, &bare, None).await, "{} with {header}", route.path);
        }
        let approvals = answer(&eve, &Method::GET, "/v1/approvals", Some((header, "acme"))).await.2;
        assert_eq!(approvals["items"].as_array().unwrap().len(), 1, "with {header}");
        assert_eq!(approvals["items"][0]["id"], json!(of_eve.approval));
    }
    app.finish().await;
}
