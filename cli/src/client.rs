//! The API's client of the command line. It submits safely (a creation has a key, and is repeated with it) and follows exactly
//! once (it keeps the last id that it has, and resumes from it after any end of a stream that is not the run's).

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use baton_core::approvals::Verdict;
use baton_core::outbound;
use baton_core::page::LIMIT_MAX;
use baton_core::runs::WaitingFor;
use baton_core::tools::Risk;
use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::header::ACCEPT;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::exit::{Exit, Failure, exit_of};
use crate::hints::Hints;
use crate::note::note;

/// Tries of a request that the server did not answer, with a wait between them that doubles up to the bound: about eight
/// seconds, in which a server restarts.
const TRIES_MAX: u32 = 7;
pub(crate) const WAIT: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// After so long without an answer a person wants to know what is going on.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// A server that sends nothing for so long, not even a heartbeat, is gone.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(45);

#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    token: Option<SecretString>,
    pub(crate) hints: Hints,
    details: Details,
}

/// What is said of a refusal beside its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Details {
    /// All of its details, for programs.
    Shown,
    /// Those without which its message says too little; a conflict's says enough.
    ForPeople,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Submitted {
    pub(crate) run_id: Uuid,
    pub(crate) session_id: Uuid,
}

/// What a person has to know of an approval to decide.
#[derive(Debug, Deserialize)]
pub(crate) struct Approval {
    pub(crate) id: Uuid,
    pub(crate) tool_name: String,
    pub(crate) action_summary: String,
    /// As they stand in the answer: the exact arguments.
    pub(crate) arguments: Box<RawValue>,
    pub(crate) risk: Risk,
    pub(crate) policy_reason: String,
}

impl Client {
    pub(crate) fn new(url: String, token: Option<SecretString>, hints: Hints, details: Details) -> Result<Self, Failure> {
        let http = outbound::operator_client().map_err(|error| Failure::unavailable("an HTTP client", &error))?;
        Ok(Self { http, url, token, hints, details })
    }

    /// Identifiers of the agents that there are.
    pub(crate) async fn agents(&self) -> Result<Vec<String>, Failure> {
        #[derive(Deserialize)]
        struct Agents {
            items: Vec<Agent>,
        }
        #[derive(Deserialize)]
        struct Agent {
            id: String,
        }
        let agents: Agents = self.answer(|| self.request(Method::GET, "/v1/agents")).await?;
        Ok(agents.items.into_iter().map(|agent| agent.id).collect())
    }

    pub(crate) async fn create_session(&self, agent_id: &str) -> Result<Uuid, Failure> {
        #[derive(Deserialize)]
        struct Session {
            id: Uuid,
        }
        let session: Session = self.create("/v1/sessions", &json!({ "agent_id": agent_id })).await?;
        Ok(session.id)
    }

    pub(crate) async fn submit(&self, session_id: Uuid, text: &str) -> Result<Submitted, Failure> {
        let body = json!({"content": [{"type": "text", "text": text}]});
        self.create(&format!("/v1/sessions/{session_id}/messages"), &body).await
    }

    /// A creation that may be repeated: its key makes it one.
    async fn create<T: for<'de> Deserialize<'de>>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        let key = fresh_key();
        self.answer(|| self.request(Method::POST, path).header("Idempotency-Key", &key).json(body)).await
    }

    /// The events of a run, from its first.
    pub(crate) fn follow(&self, run_id: Uuid) -> Following<'_> {
        Following { client: self, run_id, cursor: 0, events: None, ahead: VecDeque::new() }
    }

    /// One connection to the events of a run after a cursor. None: nothing is missing, and nothing more will come.
    pub(crate) async fn open(&self, run_id: Uuid, cursor: i64) -> Result<Option<Response>, Failure> {
        let path = format!("/v1/runs/{run_id}/events");
        let response = self.send(|| self.request(Method::GET, &path).header("Last-Event-ID", cursor)).await?;
        Ok((response.status() != StatusCode::NO_CONTENT).then_some(response))
    }

    /// The data of all stored events of a run, from pages of the log.
    pub(crate) async fn stored(&self, run_id: Uuid) -> Result<Vec<Box<RawValue>>, Failure> {
        #[derive(Deserialize)]
        struct EventPage {
            items: Vec<Box<RawValue>>,
            next_cursor: Option<String>,
        }
        let (mut events, mut next) = (Vec::new(), Some("0".to_owned()));
        while let Some(after) = next {
            let path = format!("/v1/runs/{run_id}/events?after={after}");
            let page: EventPage = self.answer(|| self.request(Method::GET, &path).header(ACCEPT, "application/json")).await?;
            events.extend(page.items);
            next = page.next_cursor;
        }
        Ok(events)
    }

    /// What the run waits for, now.
    pub(crate) async fn waiting_for(&self, run_id: Uuid) -> Result<Option<WaitingFor>, Failure> {
        #[derive(Deserialize)]
        struct Run {
            waiting_for: Option<WaitingFor>,
        }
        let run: Run = self.answer(|| self.request(Method::GET, &format!("/v1/runs/{run_id}"))).await?;
        Ok(run.waiting_for)
    }

    /// The run's pending approvals, in the order of their calls.
    pub(crate) async fn pending_approvals(&self, run_id: Uuid) -> Result<Vec<Approval>, Failure> {
        #[derive(Deserialize)]
        struct Approvals {
            items: Vec<Approval>,
        }
        let path = format!("/v1/approvals?run_id={run_id}&status=PENDING&limit={LIMIT_MAX}");
        let mut approvals: Approvals = self.answer(|| self.request(Method::GET, &path)).await?;
        approvals.items.reverse();
        Ok(approvals.items)
    }

    pub(crate) async fn resolve(&self, approval_id: Uuid, verdict: Verdict) -> Result<(), Failure> {
        let path = format!("/v1/approvals/{approval_id}/resolve");
        self.send(|| self.request(Method::POST, &path).json(&json!({"decision": verdict}))).await.map(drop)
    }

    pub(crate) async fn input(&self, run_id: Uuid, question_id: Uuid, text: &str) -> Result<(), Failure> {
        let path = format!("/v1/runs/{run_id}/input");
        let body = json!({"content": [{"type": "text", "text": text}], "question_id": question_id});
        self.send(|| self.request(Method::POST, &path).json(&body)).await.map(drop)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    async fn answer<T: for<'de> Deserialize<'de>>(&self, request: impl Fn() -> RequestBuilder) -> Result<T, Failure> {
        let response = self.send(request).await?;
        response.json().await.map_err(|error| Failure::unavailable("the API's answer", &error))
    }

    async fn send(&self, request: impl Fn() -> RequestBuilder) -> Result<Response, Failure> {
        let mut tries = pin!(self.tries(request));
        tokio::select! {
            answered = &mut tries => return answered,
            () = tokio::time::sleep(NOTICE_AFTER) => note!("! {} does not answer yet: trying again for a while", self.url),
        }
        tries.await
    }

    async fn tries(&self, request: impl Fn() -> RequestBuilder) -> Result<Response, Failure> {
        let mut wait = WAIT;
        let mut last = None;
        for _ in 0..TRIES_MAX {
            match request().send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                    last = Some(self.refusal(response).await);
                }
                Ok(response) => return Err(self.refusal(response).await),
                // Not sent: it would be the same again.
                Err(error) if error.is_builder() => return Err(Failure::usage("the token has characters that no token has")),
                Err(error) => {
                    let failure = Failure::unavailable(&format!("the API at {}", self.url), &error.without_url());
                    last = Some(failure.hint("is a server running there? --url names another, `agentctl dev` starts one"));
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(WAIT_MAX);
        }
        Err(last.unwrap_or_else(|| Failure::new(Exit::Unavailable, "the API does not answer")))
    }

    async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        let body: Value = response.json().await.unwrap_or_default();
        let error = &body["error"];
        let (code, details) = (error["code"].as_str().unwrap_or_default(), &error["details"]);
        let message = error["message"].as_str().unwrap_or("the API refused");
        let active_run = (details["reason"] == "active_run_exists").then(|| details["run_id"].as_str()?.parse().ok()).flatten();
        let exit = exit_of(code);
        let shows_details = self.details == Details::Shown || exit != Exit::Conflict;
        let message = match active_run {
            Some(run_id) => self.hints.active_run(run_id, details["run_status"].as_str().unwrap_or_default()),
            None if shows_details && details.as_object().is_some_and(|details| !details.is_empty()) => {
                format!("{message} ({status}) {details}")
            }
            None => format!("{message} ({status})"),
        };
        let failure = Failure::new(exit, message);
        match status {
            StatusCode::UNAUTHORIZED if self.token.is_some() => failure.hint("the API's log says what is wrong with this token"),
            StatusCode::UNAUTHORIZED => failure.hint("give a token: --token, or BATON_TOKEN"),
            StatusCode::MISDIRECTED_REQUEST => failure.hint("give --url with a name of its `server.allowed_hosts`"),
            _ => failure,
        }
    }
}

type Events = BoxStream<'static, Result<Event, EventStreamError<reqwest::Error>>>;

/// Every event of a run, stored ones exactly once and in order, over any number of lost connections. Whoever takes them may
/// take its time in between: what a person decides holds up nothing but this.
pub(crate) struct Following<'a> {
    client: &'a Client,
    run_id: Uuid,
    /// The last stored event that came.
    cursor: i64,
    /// None: to be connected.
    events: Option<Events>,
    /// What came and was not handed out.
    ahead: VecDeque<Event>,
}

impl Following<'_> {
    /// None: the run has ended, and nothing is missing.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        match self.ahead.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.receive().await,
        }
    }

    /// Returns when something comes, which stays to be handed out. Nothing is lost where nobody waits for it any more.
    pub(crate) async fn look_ahead(&mut self) -> Result<(), Failure> {
        let event = self.receive().await?;
        self.ahead.extend(event);
        Ok(())
    }

    async fn receive(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            let Some(events) = &mut self.events else {
                match self.connect().await? {
                    Some(events) => self.events = Some(events),
                    None => return Ok(None),
                }
                continue;
            };
            let Ok(Some(Ok(event))) = tokio::time::timeout(SILENCE_MAX, events.next()).await else {
                // An end of the stream that is not the run's end always means: resume, though not at once and for ever.
                self.events = None;
                tokio::time::sleep(WAIT).await;
                continue;
            };
            match event.id.parse::<i64>() {
                Ok(sequence) if is_stored(&event) && sequence <= self.cursor => continue,
                Ok(sequence) if is_stored(&event) => self.cursor = sequence,
                _ => {}
            }
            return Ok(Some(event));
        }
    }

    async fn connect(&self) -> Result<Option<Events>, Failure> {
        let response = self.client.open(self.run_id, self.cursor).await?;
        Ok(response.map(|response| response.bytes_stream().eventsource().boxed()))
    }
}

/// The parser repeats the last id on frames without one; only transient frames have none, and their data has an offset.
fn is_stored(event: &Event) -> bool {
    !matches!(event.event.as_str(), "message.delta" | "reasoning.delta" | "tool.progress" | "stream.overflow" | "stream.closing")
}

fn fresh_key() -> String {
    baton_core::clock::Clock::system().new_id().to_string()
}
