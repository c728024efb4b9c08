use std::collections::HashSet;

use super::*;

#[test]
fn only_health_is_public() {
    let public: Vec<&str> =
        crate::table().iter().filter(|route| route.access == Access::Public).map(|route| route.path).collect();
    assert_eq!(public, ["/health/live", "/health/ready"]);
}

#[test]
fn the_table_holds_what_is_registered() {
    let lines: Vec<String> = crate::table()
        .iter()
        .map(|Route { method, path, access, takes }| match access {
            Access::Public => format!("{method} {path} public {takes:?}"),
            Access::Authenticated => format!("{method} {path} authenticated {takes:?}"),
            Access::Scope(scope) => format!("{method} {path} {scope} {takes:?}"),
        })
        .collect();
    assert_eq!(
        lines,
        [
            "GET /health/live public Nothing",
            "GET /health/ready public Nothing",
            "GET /openapi.json authenticated Nothing",
            "POST /v1/sessions session.write Json",
            "GET /v1/sessions session.read Nothing",
            "GET /v1/sessions/{session_id} session.read Nothing",
            "DELETE /v1/sessions/{session_id} session.write Nothing",
            "POST /v1/sessions/{session_id}/close session.write Nothing",
            "GET /v1/sessions/{session_id}/messages session.read Nothing",
            "POST /v1/sessions/{session_id}/messages run.write Json",
            "GET /v1/sessions/{session_id}/events run.read Nothing",
            "GET /v1/runs run.read Nothing",
            "GET /v1/runs/{run_id} run.read Nothing",
            "GET /v1/runs/{run_id}/why run.read Nothing",
            "GET /v1/runs/{run_id}/events run.read Nothing",
            "POST /v1/runs/{run_id}/cancel run.cancel Nothing",
            "POST /v1/runs/{run_id}/input run.write Json",
            "GET /v1/approvals approval.read Nothing",
            "GET /v1/approvals/{approval_id} approval.read Nothing",
            "POST /v1/approvals/{approval_id}/resolve approval.resolve Json",
            "GET /v1/artifacts/{artifact_id} artifact.read Nothing",
            "GET /v1/artifacts/{artifact_id}/content artifact.read Nothing",
            "GET /v1/agents agent.read Nothing",
            "GET /v1/agents/{agent_id} agent.read Nothing",
            "GET /v1/queue operator.read Nothing",
            "POST /v1/browser-session authenticated Nothing",
            "DELETE /v1/browser-session authenticated Nothing",
        ]
    );
}

#[test]
fn nothing_that_changes_something_is_public_or_registered_twice() {
    let mut seen = HashSet::new();
    for route in crate::table() {
        assert!(route.method == Method::GET || route.access != Access::Public, "{route:?}");
        assert!(seen.insert((route.method.clone(), route.path)), "{route:?}");
    }
}
