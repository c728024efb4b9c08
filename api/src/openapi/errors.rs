//! Errors in the document: an envelope for each code, its status from the one table, its examples from the errors themselves.

use std::collections::BTreeMap;

use axum::http::Method;
use baton_core::approvals::ApprovalStatus;
use baton_core::error::Problem;
use baton_core::events::Decision;
use baton_core::runs::RunStatus;
use baton_core::{Cap, Code, Conflict, Error, Resource, Scope};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::access::{Access, Route, Takes};
use crate::body;
use crate::error::status;
use crate::openapi::examples;
use crate::openapi::headers::{self, Header};
use crate::openapi::schemas::{self, Components, object, one};

mod reference;

pub use reference::reference;

/// Codes by status, each with when it is answered where its route has more to say than its meaning.
pub(super) type Documented = BTreeMap<u16, Vec<(Code, Option<&'static str>)>>;

/// What can go wrong before a handler is asked, and what every handler may answer: nobody repeats it for each route.
pub(super) fn of_every(route: &Route) -> Documented {
    let mut codes = vec![Code::MalformedRequest, Code::MisdirectedRequest, Code::PayloadTooLarge, Code::InternalError];
    if route.access != Access::Public {
        codes.extend([Code::AuthenticationError, Code::ServiceUnavailable]);
    }
    if matches!(route.access, Access::Scope(_)) || route.method != Method::GET {
        codes.push(Code::AuthorizationError); // without the scope, or of a foreign `Origin`
    }
    if route.takes == Takes::Json {
        codes.push(Code::UnsupportedMediaType);
    }
    if route.path.contains('{') {
        codes.push(Code::NotFound);
    }
    let mut errors = Documented::new();
    codes.into_iter().for_each(|code| add(&mut errors, code, None));
    errors
}

pub(super) fn add(errors: &mut Documented, code: Code, when: Option<&'static str>) {
    let codes = errors.entry(status(code).as_u16()).or_default();
    codes.retain(|(known, _)| *known != code);
    codes.push((code, when));
}

/// The `responses` of an operation for its errors.
pub(super) fn responses(errors: &Documented, components: &mut Components) -> Map<String, Value> {
    errors.iter().map(|(status, codes)| (status.to_string(), response(codes, components))).collect()
}

/// Answers of no route: what is unknown is 404 or 405.
pub(super) fn add_fallbacks(components: &mut Components) {
    for code in [Code::NotFound, Code::MethodNotAllowed] {
        response(&[(code, None)], components);
    }
}

fn response(codes: &[(Code, Option<&'static str>)], components: &mut Components) -> Value {
    let schemas: Vec<Value> = codes.iter().map(|(code, _)| envelope_of(*code, components)).collect();
    let schema = match &schemas[..] {
        [only] => only.clone(),
        several => json!({"oneOf": several}),
    };
    let told = |(code, when): &(Code, Option<&str>)| format!("`{code}`: {}", when.unwrap_or(meaning(*code)));
    let of_all = advice(codes[0].0).filter(|header| codes.iter().all(|(code, _)| advice(*code) == Some(*header)));
    let response = json!({
        "description": codes.iter().map(told).collect::<Vec<_>>().join("\n"),
        "headers": headers::of(of_all.as_slice()),
        "content": {"application/json": {"schema": schema}},
    });
    match codes {
        [(code, None)] => {
            components.responses.insert(name(*code), response);
            schemas::reference("responses", &name(*code))
        }
        _ => response,
    }
}

/// `not_found` is `NotFoundError`, `internal_error` is `InternalError`.
fn name(code: Code) -> String {
    let words = code.as_str().trim_end_matches("_error").split('_');
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    words.map(capital).collect::<String>() + "Error"
}

/// The header that `error::advice` adds.
const fn advice(code: Code) -> Option<Header> {
    match code {
        Code::AuthenticationError => Some(Header::WwwAuthenticate),
        Code::RateLimited | Code::ServiceUnavailable => Some(Header::RetryAfter),
        _ => None,
    }
}

fn envelope_of(code: Code, components: &mut Components) -> Value {
    let details = details(code, components);
    let mut error = object(&json!({
        "code": {"const": code.as_str()},
        "message": {"type": "string", "minLength": 1, "description": "For a person."},
        "details": details,
        "request_id": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    }));
    error["description"] = meaning(code).into();
    let mut envelope = object(&json!({"error": error}));
    let examples: Vec<Value> = samples(code).iter().map(sample_envelope).collect();
    if !examples.is_empty() {
        envelope["examples"] = examples.into();
    }
    components.schema(&name(code), envelope)
}

fn sample_envelope(error: &Error) -> Value {
    json!({"error": {
        "code": error.code().as_str(),
        "message": error.to_string(),
        "details": error.details(),
        "request_id": examples::REQUEST_ID,
    }})
}

/// What `Error::details` gives; a test holds it to this.
fn details(code: Code, components: &mut Components) -> Value {
    let uuid = || json!({"type": "string", "format": "uuid"});
    match code {
        Code::Conflict => {
            let run_status = (one::<RunStatus>().0)(components);
            let decision = (one::<Decision>().0)(components);
            let reason = |reason: &str, mut more: Value| {
                more["reason"] = json!({"const": reason});
                object(&more)
            };
            json!({"oneOf": [
                reason("active_run_exists", json!({"run_id": uuid(), "run_status": run_status})),
                reason("approval_already_resolved", json!({"approval_id": uuid(), "decision": decision})),
                reason("cursor_ahead", json!({"head": {"type": "integer", "minimum": 0}})),
                reason("idempotency_key_reused", json!({})),
                reason("question_already_answered", json!({})),
                reason("session_closed", json!({})),
            ]})
        }
        Code::InvalidStateTransition => {
            let status = [(one::<RunStatus>().0)(components), (one::<ApprovalStatus>().0)(components)];
            object(&json!({"status": {"anyOf": status}}))
        }
        Code::MalformedRequest => {
            let problem = (one::<Problem>().0)(components);
            object(&json!({"errors": {"type": "array", "minItems": 1, "items": problem}}))
        }
        Code::RateLimited | Code::ServiceUnavailable => {
            object(&json!({"retry_after_seconds": {"type": "integer", "minimum": 0}}))
        }
        _ => object(&json!({})),
    }
}

/// Errors of this code as services return them; none for a code that only runs and tools have.
fn samples(code: Code) -> Vec<Error> {
    let (run_id, approval_id) = (examples::id(examples::RUN_ID), examples::id(examples::APPROVAL_ID));
    match code {
        Code::AuthenticationError => vec![Error::Authentication],
        Code::AuthorizationError => vec![Error::Authorization(Scope::RunWrite), Error::SelfApproval, Error::ForeignOrigin],
        Code::NotFound => vec![Error::NotFound(Resource::Run)],
        Code::Conflict => conflicts(run_id, approval_id).into_iter().map(Error::Conflict).collect(),
        Code::InvalidStateTransition => {
            vec![Error::InvalidStateTransition(RunStatus::Running), Error::ApprovalClosed(ApprovalStatus::Expired)]
        }
        Code::ConcurrencyConflict => vec![Error::ConcurrencyConflict],
        Code::MalformedRequest => vec![Error::malformed("/content", "1 to 32 blocks")],
        Code::UnsupportedMediaType => vec![Error::UnsupportedMediaType],
        Code::PayloadTooLarge => vec![Error::PayloadTooLarge { limit_bytes: body::BYTES_MAX }],
        Code::MethodNotAllowed => vec![Error::MethodNotAllowed],
        Code::MisdirectedRequest => vec![Error::Misdirected],
        Code::RateLimited => vec![Error::RateLimited(Cap::QueuedRuns)],
        Code::ArtifactStorageError => {
            vec![Error::ArtifactStorage { id: examples::id(examples::ARTIFACT_ID), source: "never shown".into() }]
        }
        Code::ServiceUnavailable => vec![Error::Unavailable { retry_after_seconds: 2, source: None }],
        Code::InternalError => vec![Error::internal("never shown")],
        _ => Vec::new(),
    }
}

fn conflicts(run_id: Uuid, approval_id: Uuid) -> [Conflict; 6] {
    [
        Conflict::ActiveRun { run_id, status: RunStatus::Running },
        Conflict::IdempotencyKeyReused,
        Conflict::CursorAhead { head: 12 },
        Conflict::ApprovalAlreadyResolved { approval_id, decision: Decision::Deny },
        Conflict::QuestionAlreadyAnswered,
        Conflict::SessionClosed,
    ]
}

/// What a code means, for whoever meets it. Exhaustive: a new code does not compile without its words.
const fn meaning(code: Code) -> &'static str {
    match code {
        Code::AuthenticationError => "The credential is missing or not valid.",
        Code::AuthorizationError => "The caller lacks the scope, may not decide this, or asks from a foreign page.",
        Code::NotFound => "There is no such thing, or it is somebody else's.",
        Code::Conflict => "The state of the resource is in the way; `details.reason` says how.",
        Code::InvalidStateTransition => "The status of the resource does not allow this.",
        Code::ConcurrencyConflict => "Others were changing the same thing; try again.",
        Code::ToolNotFound => "This build has no such tool.",
        Code::ToolValidationError => "The arguments do not fit the tool's schema.",
        Code::ToolPolicyDenied => "The policy does not allow the call.",
        Code::ToolTimeout => "The tool did not answer in time.",
        Code::ToolExecutionError => "The tool failed.",
        Code::ToolResultInvalid => "The result does not fit the tool's schema.",
        Code::ApprovalRequired => "A person has to approve it first.",
        Code::ApprovalDenied => "A person denied it.",
        Code::ApprovalExpired => "Nobody answered the approval in time.",
        Code::RateLimited => "Too much at once; try again after the time given.",
        Code::ServiceUnavailable => "The service cannot answer right now; try again after the time given.",
        Code::InternalError => "A defect of the server; its log has the request's id.",
        Code::BudgetExceeded => "A limit of tokens, calls or money was reached.",
        Code::DeadlineExceeded => "The request's own time limit was reached.",
        Code::RunDeadlineExceeded => "The run's deadline was reached.",
        Code::RunCancelled => "The run was cancelled.",
        Code::ContextOverflow => "The conversation does not fit the model's context.",
        Code::ToolLoopDetected => "The model repeated the same call with the same result.",
        Code::ModelTransientError => "The model could not answer right now.",
        Code::ModelPermanentError => "The model cannot answer this.",
        Code::ModelProtocolError => "The model's answer was not understood.",
        Code::SandboxProvisionError => "No sandbox could be had.",
        Code::SandboxExecutionError => "The sandbox failed.",
        Code::ArtifactStorageError => "The bytes of artifacts cannot be reached.",
        Code::MalformedRequest => "The request is wrong in itself; `details.errors` says where, all at once.",
        Code::UnsupportedMediaType => "A body must be `application/json`.",
        Code::PayloadTooLarge => "The body is larger than 1 MiB.",
        Code::MethodNotAllowed => "The path does not know that method; `Allow` has those that it knows.",
        Code::MisdirectedRequest => "The server does not answer for that host.",
        Code::NotImplemented => "This server does not have that feature.",
    }
}

#[cfg(test)]
mod tests;
