//! The API's client of the command line. It submits safely (a creation has a key, and is repeated with it) and follows exactly
//! once (it keeps the last id that it has, and resumes from it after any end of a stream that is not the run's).

use std::time::Duration;

use baton_core::outbound;
use eventsource_stream::{Event, Eventsource};
use futures::StreamExt;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::exit::{Exit, Failure, exit_of};

/// Tries of a request that the server did not answer, with a wait between them that doubles up to the bound: about eight
/// seconds, in which a server restarts.
const TRIES_MAX: u32 = 7;
const WAIT: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A server that sends nothing for so long, not even a heartbeat, is gone.
const SILENCE_MAX: Duration = Duration::from_secs(45);

#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Submitted {
    pub(crate) run_id: Uuid,
    pub(crate) session_id: Uuid,
}

impl Client {
    pub(crate) fn new(url: String) -> Result<Self, Failure> {
        let http = outbound::operator_client().map_err(|error| Failure::unavailable("an HTTP client", &error))?;
        Ok(Self { http, url })
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
        let request = || self.http.post(format!("{}{path}", self.url)).header("Idempotency-Key", &key).json(body);
        let response = self.send(request).await?;
        response.json().await.map_err(|error| Failure::unavailable("the API's answer", &error))
    }

    /// Hands every event of the run to `each`, stored ones exactly once and in order, to the run's end, over any number of
    /// lost connections.
    pub(crate) async fn follow(
        &self,
        run_id: Uuid,
        mut each: impl FnMut(&Event) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut cursor: u64 = 0;
        loop {
            let request =
                || self.http.get(format!("{}/v1/runs/{run_id}/events", self.url)).header("Last-Event-ID", cursor.to_string());
            let response = self.send(request).await?;
            if response.status() == StatusCode::NO_CONTENT {
                return Ok(());
            }
            let mut events = response.bytes_stream().eventsource();
            while let Ok(Some(Ok(event))) = tokio::time::timeout(SILENCE_MAX, events.next()).await {
                if let Ok(sequence) = event.id.parse::<u64>()
                    && is_stored(&event)
                {
                    if sequence <= cursor {
                        continue;
                    }
                    cursor = sequence;
                }
                if each(&event)? {
                    return Ok(());
                }
            }
            // An end of the stream that is not the run's end always means: resume, though not at once and for ever.
            tokio::time::sleep(WAIT).await;
        }
    }

    async fn send(&self, request: impl Fn() -> RequestBuilder) -> Result<Response, Failure> {
        let mut wait = WAIT;
        let mut last = None;
        for _ in 0..TRIES_MAX {
            match request().send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => last = Some(refusal(response).await),
                Ok(response) => return Err(refusal(response).await),
                Err(error) => last = Some(Failure::unavailable(&format!("the API at {}", self.url), &error)),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(WAIT_MAX);
        }
        Err(last.unwrap_or_else(|| Failure::new(Exit::Unavailable, "the API does not answer")))
    }
}

/// The parser repeats the last id on frames without one; only transient frames have none, and their data has an offset.
fn is_stored(event: &Event) -> bool {
    !matches!(event.event.as_str(), "message.delta" | "reasoning.delta" | "tool.progress" | "stream.overflow" | "stream.closing")
}

async fn refusal(response: Response) -> Failure {
    let status = response.status();
    let body: Value = response.json().await.unwrap_or_default();
    let error = &body["error"];
    let code = error["code"].as_str().unwrap_or_default();
    let message = error["message"].as_str().unwrap_or("the API refused");
    let details = if error["details"].as_object().is_some_and(|details| !details.is_empty()) {
        format!(" {}", error["details"])
    } else {
        String::new()
    };
    Failure::new(exit_of(code), format!("{message} ({status}){details}"))
}

fn fresh_key() -> String {
    baton_core::clock::Clock::system().new_id().to_string()
}
