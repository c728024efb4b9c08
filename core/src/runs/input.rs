//! What a user answers to a run that has asked. Repeats are safe: a question has one answer.

use sqlx::PgPool;
use uuid::Uuid;

use crate::content;
use crate::db;
use crate::error::{Conflict, Error, Resource};
use crate::fault::Point;
use crate::idempotency::{IdempotencyKey, KeyTtl};
use crate::notify::Hint;
use crate::principal::Principal;
use crate::runs::command::{DeliverInput, Submitted};
use crate::runs::service::RunService;
use crate::runs::status::RunStatus;
use crate::runs::store;
use crate::runs::submission::NewRun;
use crate::scope::Scope;
use crate::task::shielded;

/// Deliveries again, to a question that was found open after it could not be answered.
const OPEN_TRIES_MAX: u32 = 10;

impl RunService {
    /// Answers a question of the run, and sends it back to the queue. The same answer again is a success.
    ///
    /// # Errors
    /// `NotFound` for the run, and for a question that is not the run's; `Malformed`; `InvalidStateTransition` where the run does
    /// not wait, or not any more; `Conflict` where the question has another answer.
    pub async fn input(&self, principal: &Principal, run_id: Uuid, command: DeliverInput) -> Result<Submitted, Error> {
        principal.require(Scope::RunWrite)?;
        let problems = content::problems(&command.content);
        if !problems.is_empty() {
            return Err(self.missing_or(principal, run_id, Error::Malformed(problems)).await);
        }
        let content = serde_json::to_string(&command.content).map_err(Error::internal)?;
        let (service, principal) = (self.clone(), principal.clone());
        shielded(async move {
            // The question is known by its id before it is answered: were the answer to a delivery lost, a repeat that means
            // "the newest" could find the next one.
            let mut question_id = command.question_id;
            for _ in 0..OPEN_TRIES_MAX {
                let found = find(&service.pool, &principal, run_id, question_id).await?.ok_or(Error::NotFound(Resource::Run))?;
                let open = match judge(&found, question_id, &content)? {
                    Standing::Open(open) => open,
                    Standing::Answered => {
                        // Perhaps by us, and the answer was lost: then nobody has been woken.
                        service.notifier.send([Hint::Queue, Hint::Events { session_id: found.session_id, sequence: i64::MAX }]);
                        return Ok(Submitted { run_id, session_id: found.session_id, status: found.status, replayed: false });
                    }
                };
                question_id = Some(open);
                let answer = Answer { run_id, question_id: open, content: &content, key: None, key_ttl: service.key_ttl };
                if let Some(submitted) = service.deliver(&principal, &answer).await? {
                    return Ok(submitted);
                }
            }
            Err(Error::ConcurrencyConflict)
        })
        .await
    }

    /// A request for a run of the caller's that is wrong in itself: `NotFound` comes before what is wrong.
    pub async fn missing_or(&self, principal: &Principal, run_id: Uuid, error: Error) -> Error {
        match store::status(&self.pool, principal, run_id).await {
            Ok(Some(_)) => error,
            Ok(None) => Error::NotFound(Resource::Run),
            Err(unreadable) => unreadable,
        }
    }

    /// Delivers a message of the session as the answer to the question that its run waits with. None: the question was closed
    /// meanwhile, or the key has become known; another submission sees which.
    pub(super) async fn route(&self, new: &NewRun, run_id: Uuid, question_id: Uuid) -> Result<Option<Submitted>, Error> {
        let content = serde_json::to_string(&new.command.content).map_err(Error::internal)?;
        let answer = Answer { run_id, question_id, content: &content, key: new.key.as_ref(), key_ttl: new.key_ttl };
        if let Some(submitted) = self.deliver(&new.principal, &answer).await? {
            return Ok(Some(submitted));
        }
        if new.key.is_some() {
            return Ok(None); // if the delivery was ours and its answer was lost, the key says so
        }
        let found = find(&self.pool, &new.principal, run_id, Some(question_id)).await?.ok_or(Error::NotFound(Resource::Run))?;
        let is_ours = found.question.is_some_and(|question| question.answer.as_deref() == Some(content.as_str()));
        Ok(is_ours.then_some(Submitted { run_id, session_id: found.session_id, status: found.status, replayed: false }))
    }

    /// None: nothing was delivered, and nothing was left behind.
    async fn deliver(&self, principal: &Principal, answer: &Answer<'_>) -> Result<Option<Submitted>, Error> {
        let Some(delivered) = db::repeat_when_lost(|| deliver(&self.pool, principal, answer)).await? else { return Ok(None) };
        self.faults.hit(Point::AfterInput).await?;
        let (run_id, session_id) = (answer.run_id, delivered.session_id);
        self.notifier.send([Hint::Queue, Hint::Events { session_id, sequence: delivered.sequence }]);
        Ok(Some(Submitted { run_id, session_id, status: RunStatus::Queued, replayed: false }))
    }
}

/// Why a question could not be answered, where that is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Open(Uuid),
    /// With the same words.
    Answered,
}

/// The run and a question of it, as they are.
struct Found {
    session_id: Uuid,
    status: RunStatus,
    question: Option<FoundQuestion>,
}

struct FoundQuestion {
    id: Uuid,
    /// Open, in time, and the run waits for it.
    is_answerable: bool,
    /// Its bytes, where there is one.
    answer: Option<String>,
}

fn judge(found: &Found, named: Option<Uuid>, content: &str) -> Result<Standing, Error> {
    match &found.question {
        Some(question) if question.is_answerable => Ok(Standing::Open(question.id)),
        Some(FoundQuestion { answer: Some(answer), .. }) if answer == content => Ok(Standing::Answered),
        Some(FoundQuestion { answer: Some(_), .. }) => Err(Error::Conflict(Conflict::QuestionAlreadyAnswered)),
        None if named.is_some() => Err(Error::NotFound(Resource::Question)),
        _ => Err(Error::InvalidStateTransition(found.status)),
    }
}

/// The run, where the principal owns it, with the question that is named, or else with its newest.
async fn find(pool: &PgPool, principal: &Principal, run_id: Uuid, question_id: Option<Uuid>) -> Result<Option<Found>, Error> {
    let row = sqlx::query!(
        r#"
        SELECT r.session_id, r.status, q.id AS "question_id?", q.answer,
            coalesce(q.status = 'OPEN' AND q.expires_at > now() AND r.status = 'WAITING_FOR_USER', false) AS "is_answerable!"
        FROM runs r
        LEFT JOIN LATERAL (
            SELECT o.id, o.status, o.answer, o.expires_at FROM questions o
            WHERE o.run_id = r.id AND ($4::uuid IS NULL OR o.id = $4) ORDER BY o.created_at DESC, o.id DESC LIMIT 1
        ) q ON true
        WHERE r.id = $1 AND r.tenant_id = $2 AND r.principal_id = $3
        "#,
        run_id,
        principal.tenant_id,
        principal.principal_id,
        question_id,
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let question = row.question_id.map(|id| FoundQuestion { id, is_answerable: row.is_answerable, answer: row.answer });
    Ok(Some(Found { session_id: row.session_id, status: row.status.parse().map_err(Error::internal)?, question }))
}

struct Answer<'a> {
    run_id: Uuid,
    question_id: Uuid,
    /// JSON; "the same answer again" compares its bytes.
    content: &'a str,
    /// Of a message that is the answer.
    key: Option<&'a IdempotencyKey>,
    key_ttl: KeyTtl,
}

struct Delivered {
    session_id: Uuid,
    /// Of the event.
    sequence: i64,
}

/// The answer, its event, its key and the run's way back to the queue: all or nothing, in one statement. None: the run does
/// not wait with this question, or the key exists.
async fn deliver(pool: &PgPool, principal: &Principal, answer: &Answer<'_>) -> Result<Option<Delivered>, sqlx::Error> {
    sqlx::query_as!(
        Delivered,
        r#"
        WITH run AS MATERIALIZED (
            -- The run before what hangs on it, everywhere: answer, expiry and cancel meet here, and one of them wins.
            SELECT r.id, r.session_id, r.tenant_id, r.principal_id FROM runs r
            WHERE r.id = $1::uuid AND r.tenant_id = $2::text AND r.principal_id = $3::text AND r.status = 'WAITING_FOR_USER'
            FOR NO KEY UPDATE
        ), que AS MATERIALIZED (
            -- Past its time it is refused here, whether or not maintenance has come by.
            SELECT q.id, run.id AS run_id, run.session_id, run.tenant_id, run.principal_id FROM questions q JOIN run ON q.run_id = run.id
            WHERE q.id = $4::uuid AND q.status = 'OPEN' AND q.expires_at > now()
            FOR NO KEY UPDATE OF q
        ), ses AS MATERIALIZED (
            -- Session before key, as in a submission: the other way round the two deadlock.
            SELECT s.id, que.id AS question_id, que.run_id, que.tenant_id, que.principal_id
            FROM sessions s JOIN que ON que.session_id = s.id
            FOR NO KEY UPDATE OF s
        ), key AS (
            INSERT INTO idempotency_keys (tenant_id, principal_id, key, request_sha256, run_id, expires_at)
            SELECT ses.tenant_id, ses.principal_id, $6::text, $7::bytea, ses.run_id, now() + $8::float8 * interval '1 second'
            FROM ses WHERE $6::text IS NOT NULL
            ON CONFLICT (tenant_id, principal_id, key) DO NOTHING
            RETURNING run_id
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + 1
            FROM ses WHERE s.id = ses.id AND ($6::text IS NULL OR EXISTS (SELECT 1 FROM key))
            RETURNING s.id AS session_id, ses.run_id, ses.question_id, s.last_sequence
        ), ans AS (
            UPDATE questions q SET status = 'ANSWERED', answer = $5::text, closed_at = now() FROM num WHERE q.id = num.question_id
        ), upd AS (
            UPDATE runs r SET status = 'QUEUED', resume_after = 'input', status_since = now(), updated_at = now()
            FROM num WHERE r.id = num.run_id
            RETURNING r.id AS run_id, num.session_id, num.question_id, num.last_sequence
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT u.session_id, u.last_sequence, u.run_id, 'user.input.delivered', 1,
                '{"content":' || $5::text || ',"question_id":"' || u.question_id || '"}'
            FROM upd u
        )
        SELECT upd.session_id, upd.last_sequence AS sequence FROM upd
        "#,
        answer.run_id,
        principal.tenant_id,
        principal.principal_id,
        answer.question_id,
        answer.content,
        answer.key.map(IdempotencyKey::key),
        answer.key.map(IdempotencyKey::request_sha256),
        answer.key_ttl.0.as_secs_f64(),
    )
    .fetch_optional(pool)
    .await
}

#[cfg(test)]
mod tests;
