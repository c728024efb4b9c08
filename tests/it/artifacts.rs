//! Artifacts over HTTP: what they are, their bytes, and who may have them.

use reqwest::header::{CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RANGE};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Caller, TestApp};

/// A run of the agent `test` that writes a file; the identifier of what it wrote.
async fn written(app: &TestApp) -> Uuid {
    app.http.start_run("write a file").await;
    app.work().await;
    sqlx::query_scalar("SELECT id FROM artifacts").fetch_one(&app.pool).await.unwrap()
}

async fn content(app: &TestApp, id: Uuid, headers: &[(reqwest::header::HeaderName, &str)]) -> Response {
    let mut request = app.http.request(Method::GET, &format!("/v1/artifacts/{id}/content"));
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn an_artifact_is_described_and_given_out() {
    let app = TestApp::start().await;
    let id = written(&app).await;
    let (status, view) = app.http.get(&format!("/v1/artifacts/{id}")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&view["name"], &view["size_bytes"], &view["metadata"]), (&json!("note.txt"), &json!(6), &json!({})));
    let fields: Vec<&String> = view.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["created_at", "id", "media_type", "metadata", "name", "run_id", "session_id", "sha256", "size_bytes"]);

    let whole = content(&app, id, &[]).await;
    assert_eq!((whole.status(), whole.content_length()), (StatusCode::OK, Some(6)));
    let etag = whole.headers()[ETAG].to_str().unwrap().to_owned();
    assert_eq!(etag, format!("\"{}\"", view["sha256"].as_str().unwrap()));
    assert_eq!(whole.text().await.unwrap(), "a note");
    assert_eq!(content(&app, id, &[(IF_NONE_MATCH, &etag)]).await.status(), StatusCode::NOT_MODIFIED);

    let part = content(&app, id, &[(RANGE, "bytes=2-3")]).await;
    assert_eq!((part.status(), part.headers()[CONTENT_RANGE].to_str().unwrap()), (StatusCode::PARTIAL_CONTENT, "bytes 2-3/6"));
    assert_eq!(part.text().await.unwrap(), "no");
    let unsatisfiable = content(&app, id, &[(RANGE, "bytes=99-")]).await;
    assert_eq!((unsatisfiable.status(), unsatisfiable.text().await.unwrap().as_str()), (StatusCode::OK, "a note"));
    app.finish().await;
}

#[tokio::test]
async fn gate_a10_content_is_always_an_attachment() {
    let app = TestApp::start().await;
    let id = written(&app).await;
    for (name, media_type) in [
        ("page.html", "text/html"),
        ("drawing.svg", "image/svg+xml"),
        ("räk 👋.txt", "text/plain; charset=utf-8"),
        ("a;filename=b.exe", "application/x-msdownload"),
    ] {
        sqlx::query("UPDATE artifacts SET name = $1, media_type = $2")
            .bind(name)
            .bind(media_type)
            .execute(&app.pool)
            .await
            .unwrap();
        let response = content(&app, id, &[]).await;
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        assert!(header("content-disposition").starts_with("attachment; "), "{name}");
        assert_eq!((header("content-type"), header("x-content-type-options")), (media_type, "nosniff"));
        assert_eq!(header("content-security-policy"), "sandbox");
        assert_eq!(response.headers().get_all(CONTENT_DISPOSITION).iter().count(), 1);
        assert_eq!(response.headers().get_all(CONTENT_TYPE).iter().count(), 1);
    }
    app.finish().await;
}

#[tokio::test]
async fn bytes_that_were_changed_come_short() {
    let app = TestApp::start().await;
    let id = written(&app).await;
    sqlx::query("UPDATE artifacts SET sha256 = repeat('0', 64)").execute(&app.pool).await.unwrap();
    let response = app.http.request(Method::GET, &format!("/v1/artifacts/{id}/content")).send().await;
    let whole = match response {
        Ok(response) => response.bytes().await,
        Err(cut) => Err(cut), // before the head was out
    };
    assert!(whole.is_err(), "a mismatch is never a silent success");
    app.finish().await;
}

#[tokio::test]
async fn others_artifacts_are_not_found() {
    let app = TestApp::start().await;
    let id = written(&app).await;
    for (caller, status) in [
        (Caller::new("dev", "another"), StatusCode::NOT_FOUND),
        (Caller::new("another", "dev"), StatusCode::NOT_FOUND),
        (Caller { scopes: Some(vec![baton_core::Scope::RunRead]), ..Caller::new("dev", "dev") }, StatusCode::FORBIDDEN),
    ] {
        for path in [format!("/v1/artifacts/{id}"), format!("/v1/artifacts/{id}/content")] {
            assert_eq!(app.http.with_caller(caller.clone()).get(&path).await.0, status, "{path}");
        }
    }
    for path in ["/v1/artifacts/x", "/v1/artifacts/00000000-0000-0000-0000-000000000000/content"] {
        assert_eq!(app.http.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    app.finish().await;
}

#[tokio::test]
async fn agents_and_the_queue_are_shown() {
    let app = TestApp::start().await;
    let (status, agents) = app.http.get("/v1/agents").await;
    assert_eq!((status, &agents["next_cursor"]), (StatusCode::OK, &Value::Null));
    let test = agents["items"].as_array().unwrap().iter().find(|agent| agent["id"] == "test").unwrap();
    let fields: Vec<&String> = test.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["id", "limits", "model", "name", "tools", "version"]);
    assert_eq!(app.http.get("/v1/agents/test").await, (StatusCode::OK, test.clone()));
    assert_eq!(app.http.get("/v1/agents/nobody").await.0, StatusCode::NOT_FOUND);
    assert_eq!(app.http.get("/v1/agents/%FF").await.0, StatusCode::NOT_FOUND);

    let run_id = app.http.start_run("noop").await;
    let (status, queue) = app.http.get("/v1/queue").await;
    assert_eq!(status, StatusCode::OK, "{queue}");
    assert_eq!((&queue["classes"][0]["priority"], &queue["classes"][0]["depth"]), (&json!("INTERACTIVE"), &json!(1)));
    assert!(queue["classes"][0]["oldest_age_seconds"].is_number() && queue["classes"][1]["oldest_age_seconds"].is_null());
    assert_eq!(queue["workers"].as_array().unwrap().len(), 1);
    // Another tenant's operator sees the workers, and none of these runs.
    let operator = Caller { scopes: Some(vec![baton_core::Scope::OperatorRead]), ..Caller::new("another", "operator") };
    let (_, queue) = app.http.with_caller(operator).get("/v1/queue").await;
    assert_eq!(queue["classes"][0]["depth"], 0);
    app.http.cancel(run_id).await;
    app.finish().await;
}
