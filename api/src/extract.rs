//! What handlers take of a request. Whatever is wrong with a body or a query is not said here: a handler says it after it
//! knows that the resource exists.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query as Parameters, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use baton_core::error::Problem;
use baton_core::idempotency::IdempotencyKey;
use baton_core::runs::WAIT_MAX;
use baton_core::{Error, Principal, Resource};
use bytes::Bytes;
use uuid::Uuid;

use crate::command::Command;
use crate::error::ApiError;
use crate::json::{self, Parsed};
use crate::state::ApiState;
use crate::{body, headers};

/// Who is asking, as the gate of the route found out.
#[derive(Debug)]
pub(crate) struct Caller(pub(crate) Principal);

impl FromRequestParts<ApiState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, ApiError> {
        let principal = parts.extensions.get().cloned();
        Ok(Self(principal.ok_or_else(|| Error::internal("a handler asks who is calling a public route"))?))
    }
}

macro_rules! path_ids {
    ($($name:ident => $resource:ident,)*) => {$(
        /// The identifier in a path. What is not one names nothing that there could be.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name(pub(crate) Uuid);

        impl FromRequestParts<ApiState> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
                let id = path_text(parts, state).await.and_then(|text| hyphenated(&text));
                id.map(Self).ok_or_else(|| Error::NotFound(Resource::$resource).into())
            }
        }
    )*};
}

path_ids! {
    SessionId => Session,
    RunId => Run,
    ApprovalId => Approval,
    ArtifactId => Artifact,
}

/// The name in a path.
#[derive(Debug)]
pub(crate) struct AgentId(pub(crate) String);

impl FromRequestParts<ApiState> for AgentId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        path_text(parts, state).await.map(Self).ok_or_else(|| Error::NotFound(Resource::Agent).into())
    }
}

/// The one variable of a path, where it is text.
async fn path_text(parts: &mut Parts, state: &ApiState) -> Option<String> {
    Path::<String>::from_request_parts(parts, state).await.ok().map(|Path(text)| text)
}

/// A UUID, written the one way that we write it.
pub(crate) fn hyphenated(text: &str) -> Option<Uuid> {
    const HYPHENATED_CHARS: usize = 36;
    Uuid::try_parse(text).ok().filter(|_| text.len() == HYPHENATED_CHARS)
}

/// A number as people write one: digits, without a sign.
pub(crate) fn number(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

const WAIT: &str = "wait";

/// The parameters of a query, in their order.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(uri: &Uri) -> Self {
        // A list of pairs takes every query: what does not decode becomes a name or value that nobody knows.
        Self(Parameters::try_from_uri(uri).map(|Parameters(pairs)| pairs).unwrap_or_default())
    }

    /// The values of a parameter that may be repeated.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that may be given once.
    pub(crate) fn once(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(Problem { path: name.into(), message: "given more than once".into() }),
        }
    }

    /// `?wait=30`: for how many seconds the answer may be held back.
    fn wait(&self) -> Result<Duration, Problem> {
        let Some(text) = self.once(WAIT)? else { return Ok(Duration::ZERO) };
        let seconds = number(text).map(|seconds| Duration::from_secs(seconds.unsigned_abs())).filter(|wait| *wait <= WAIT_MAX);
        seconds.ok_or_else(|| Problem { path: WAIT.into(), message: format!("whole seconds, at most {}", WAIT_MAX.as_secs()) })
    }

    /// Whether the answer may be held back on purpose.
    pub(crate) fn may_wait(&self) -> bool {
        self.all(WAIT).next().is_some()
    }

    /// The only parameter of a route that may be held back.
    ///
    /// # Errors
    /// `Malformed`, with everything that is wrong.
    pub(crate) fn only_wait(&self) -> Result<Duration, Error> {
        let mut problems = self.unknown(&[WAIT]);
        let wait = self.wait().unwrap_or_else(|problem| {
            problems.push(problem);
            Duration::ZERO
        });
        all_well(problems)?;
        Ok(wait)
    }

    /// A problem for each parameter that the route does not know.
    pub(crate) fn unknown(&self, known: &[&str]) -> Vec<Problem> {
        let unknown = self.0.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        unknown.map(|(name, _)| Problem { path: name.clone(), message: "unknown parameter".into() }).collect()
    }

    /// # Errors
    /// `Malformed` for a route without parameters that is given some.
    pub(crate) fn refuse(&self) -> Result<(), Error> {
        all_well(self.unknown(&[]))
    }
}

impl FromRequestParts<ApiState> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, ApiError> {
        Ok(Self::parse(&parts.uri))
    }
}

/// A request to create something: read, and not judged yet.
#[derive(Debug)]
pub(crate) struct Creation {
    parts: Parts,
    body: Bytes,
}

impl Creation {
    /// Whether the answer is to be the run's stream itself.
    pub(crate) fn wants_stream(&self) -> bool {
        headers::accepts(&self.parts.headers, "text/event-stream")
    }

    /// The command and, where the client may repeat it, its key; else everything that is wrong, at once.
    pub(crate) fn parse<T: Command>(&self) -> Result<(Option<IdempotencyKey>, T), Error> {
        let mut problems = Query::parse(&self.parts.uri).unknown(&[]);
        let key = headers::once(&self.parts.headers, "Idempotency-Key").unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let Parsed { command, canonical_text } = judged(&self.body, problems)?;
        let keyed = |key| IdempotencyKey::new(key, self.parts.method.as_str(), self.parts.uri.path(), &canonical_text);
        Ok((key.map(keyed).transpose()?, command))
    }

    pub(crate) fn traceparent(&self) -> Option<String> {
        headers::traceparent(&self.parts.headers)
    }
}

impl FromRequest<ApiState> for Creation {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &ApiState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        Ok(Self { parts, body: body::read(body, body::BYTES_MAX).await? })
    }
}

/// A request to change something that is there: read, and not judged yet. Repeats are safe by nature: a key has no effect.
#[derive(Debug)]
pub(crate) struct Change {
    query: Query,
    body: Bytes,
}

impl Change {
    /// The command; else everything that is wrong, at once.
    pub(crate) fn parse<T: Command>(&self) -> Result<T, Error> {
        Ok(judged(&self.body, self.query.unknown(&[]))?.command)
    }
}

impl FromRequest<ApiState> for Change {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &ApiState) -> Result<Self, ApiError> {
        let query = Query::parse(request.uri());
        Ok(Self { query, body: body::read(request.into_body(), body::BYTES_MAX).await? })
    }
}

/// A body, where neither it nor anything before it is wrong.
fn judged<T: Command>(body: &[u8], mut problems: Vec<Problem>) -> Result<Parsed<T>, Error> {
    match json::parse::<T>(body) {
        Ok(parsed) => all_well(problems).map(|()| parsed),
        Err(more) => {
            problems.extend(more);
            Err(Error::Malformed(problems))
        }
    }
}

/// `Malformed`, where there is a problem.
pub(crate) fn all_well(problems: Vec<Problem>) -> Result<(), Error> {
    if problems.is_empty() { Ok(()) } else { Err(Error::Malformed(problems)) }
}
