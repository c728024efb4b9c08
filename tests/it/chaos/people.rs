//! Those who talk to agents, approve and answer, and now and then change their mind: clients that try again until they are
//! answered, as clients have to.

use std::time::Duration;

use rand::Rng;
use rand::seq::IndexedRandom;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{Follower, Http, id, message};

/// What is said: together it uses every tool.
const MESSAGES: [&str; 8] =
    ["everything", "everything", "publish news", "publish twice", "ask", "write a file", "work", "slow work"];

const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const THINK_MAX: Duration = Duration::from_millis(400);
const TRY_AGAIN: Duration = Duration::from_millis(100);

const CANCEL_PART: f64 = 0.05;
const DENY_PART: f64 = 0.2;

/// What was acknowledged and seen, of one session or of all.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    /// Runs that were acknowledged, each followed to its end, with the sequences that its follower got.
    runs: Vec<(Uuid, Vec<i64>)>,
    /// Approvals that were acknowledged, with the decision.
    decided: Vec<(Uuid, &'static str)>,
    pub(super) connections: u32,
}

impl Spoken {
    pub(super) fn add(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.decided.extend(other.decided);
        self.connections += other.connections;
    }

    /// # Panics
    /// Where something that was acknowledged is not there, or a follower missed or repeated an event.
    pub(super) async fn check(&self, pool: &PgPool) {
        assert!(!self.runs.is_empty(), "nobody said anything");
        for (run_id, followed) in &self.runs {
            let ended: Option<bool> = sqlx::query_scalar("SELECT finished_at IS NOT NULL FROM runs WHERE id = $1")
                .bind(run_id)
                .fetch_optional(pool)
                .await
                .unwrap();
            assert_eq!(ended, Some(true), "run {run_id} was acknowledged");
            let stored: Vec<i64> = sqlx::query_scalar("SELECT sequence FROM events WHERE run_id = $1 ORDER BY sequence")
                .bind(run_id)
                .fetch_all(pool)
                .await
                .unwrap();
            assert_eq!(*followed, stored, "what the follower of run {run_id} got");
        }
        let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM runs").fetch_one(pool).await.unwrap();
        assert_eq!(usize::try_from(runs).unwrap(), self.runs.len(), "a repeated submission made another run");
        for (approval, decision) in &self.decided {
            let status: String =
                sqlx::query_scalar("SELECT status FROM approvals WHERE id = $1").bind(approval).fetch_one(pool).await.unwrap();
            assert_eq!(status, *decision, "approval {approval} was acknowledged");
        }
    }
}

/// One session, and the person who talks in it.
#[derive(Debug)]
pub(super) struct Session {
    http: Http,
    number: usize,
    spoken: Spoken,
}

impl Session {
    pub(super) fn new(http: Http, number: usize) -> Self {
        Self { http, number, spoken: Spoken::default() }
    }

    /// Message after message, each followed to the end of its run. What was said last is heard out.
    pub(super) async fn talk_until(mut self, over: CancellationToken) -> Spoken {
        let created = self.create("/v1/sessions".into(), format!("session-{}", self.number), &json!({"agent_id": "test"})).await;
        let session_id = id(&created["id"]);
        for turn in 0.. {
            if over.is_cancelled() {
                break;
            }
            let text = *MESSAGES.choose(&mut rand::rng()).unwrap();
            let path = format!("/v1/sessions/{session_id}/messages");
            let submitted = self.create(path, format!("message-{}-{turn}", self.number), &message(text)).await;
            self.see_to_its_end(id(&submitted["run_id"])).await;
            think().await;
        }
        self.spoken
    }

    /// Follows a run, and does for it what a person has to do.
    async fn see_to_its_end(&mut self, run_id: Uuid) {
        let mut follower = Follower::new(&self.http, run_id);
        let spoken = &mut self.spoken;
        let (http, cancels) = (self.http.clone(), rand::rng().random_bool(CANCEL_PART));
        tokio::join!(follower.follow_to_end(), attend(&http, spoken, run_id, cancels));
        spoken.connections += follower.connections;
        spoken.runs.push((run_id, follower.sequences()));
    }

    /// A creation with a key, repeated until it is answered.
    async fn create(&self, path: String, key: String, body: &Value) -> Value {
        let request = || self.http.request(Method::POST, &path).header("Idempotency-Key", &key).json(body);
        let (status, answer) = until_answered(request).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }
}

/// Looks at a run until it has ended, and decides, answers and cancels meanwhile.
async fn attend(http: &Http, spoken: &mut Spoken, run_id: Uuid, cancels: bool) {
    loop {
        let (_, run) = until_answered(|| http.request(Method::GET, &format!("/v1/runs/{run_id}"))).await;
        match run["status"].as_str() {
            Some("COMPLETED" | "FAILED" | "CANCELLED") => return,
            Some("WAITING_FOR_APPROVAL") => {
                think().await;
                for approval in run["waiting_for"]["approval_ids"].as_array().into_iter().flatten() {
                    decide(http, spoken, id(approval)).await;
                }
            }
            Some("WAITING_FOR_USER") => {
                think().await;
                let body =
                    json!({"content": [{"type": "text", "text": "blue"}], "question_id": run["waiting_for"]["question_id"]});
                until_answered(|| http.request(Method::POST, &format!("/v1/runs/{run_id}/input")).json(&body)).await;
            }
            _ => tokio::time::sleep(LOOK_INTERVAL).await,
        }
        if cancels && rand::rng().random_bool(0.3) {
            until_answered(|| http.request(Method::POST, &format!("/v1/runs/{run_id}/cancel"))).await;
        }
    }
}

async fn decide(http: &Http, spoken: &mut Spoken, approval: Uuid) {
    let (decision, status) = if rand::rng().random_bool(DENY_PART) { ("deny", "DENIED") } else { ("approve_once", "APPROVED") };
    let path = format!("/v1/approvals/{approval}/resolve");
    let (answer, body) = until_answered(|| http.request(Method::POST, &path).json(&json!({"decision": decision}))).await;
    match answer {
        StatusCode::OK => spoken.decided.push((approval, status)),
        StatusCode::CONFLICT => {} // the run was cancelled first
        other => panic!("{path}: {other} {body}"),
    }
}

/// Tries again for as long as nobody answers, or says that he cannot answer now.
async fn until_answered(request: impl Fn() -> RequestBuilder) -> (StatusCode, Value) {
    loop {
        if let Ok(response) = request().timeout(Duration::from_secs(20)).send().await {
            let status = response.status();
            if status != StatusCode::SERVICE_UNAVAILABLE
                && let Ok(body) = response.json().await
            {
                return (status, body);
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

async fn think() {
    let pause = THINK_MAX.mul_f64(rand::rng().random());
    tokio::time::sleep(pause).await;
}
