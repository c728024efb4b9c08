//! Those whom runs wait for: they decide and answer, at once with others, and sometimes what is over long since.

use std::sync::Arc;
use std::time::Duration;

use baton_core::approvals::{ApprovalStatus, ResolveApproval, Verdict};
use baton_core::content::text_content;
use baton_core::error::Conflict;
use baton_core::events::Decision;
use baton_core::runs::DeliverInput;
use baton_core::{Error, Principal, Scope, Services};
use rand::Rng;
use rand::rngs::StdRng;
use sqlx::PgPool;
use uuid::Uuid;

use super::clients::{self, Keys};
use super::facts::{Answered, Decided};
use super::world::{Stage, World, jitter};

const BETWEEN_DECISIONS_MAX: Duration = Duration::from_millis(40);
const BETWEEN_ANSWERS_MAX: Duration = Duration::from_millis(60);

/// Decides approvals; until everything is over, since runs wait for it.
pub(super) async fn decide_for_ever(world: Arc<World>, api: Services, observer: PgPool) {
    let mut rng = world.rng();
    while world.stage() != Stage::Over {
        jitter(&mut rng, BETWEEN_DECISIONS_MAX).await;
        // Mostly what is open, sometimes what was decided or closed a moment ago.
        let status = if rng.random_bool(0.9) { "= 'PENDING'" } else { "<> 'PENDING'" };
        let query = format!("SELECT id, tenant_id, run_id FROM approvals WHERE status {status} ORDER BY created_at DESC LIMIT 8");
        let found: Vec<(Uuid, String, Uuid)> = sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_all(&observer).await.unwrap();
        if found.is_empty() {
            continue;
        }
        let (id, tenant, run) = &found[rng.random_range(0..found.len())];
        let approvers = ["p", "q"].map(|name| Principal::new(tenant, name, Scope::ALL.iter().copied()).unwrap());
        let verdicts = [verdict(&mut rng), verdict(&mut rng)];
        match rng.random_range(0..10) {
            0..4 => resolve(&world, &api, &approvers[rng.random_range(0..2)], *id, verdicts[0]).await,
            // Two people, one approval.
            4..7 => {
                tokio::join!(
                    resolve(&world, &api, &approvers[0], *id, verdicts[0]),
                    resolve(&world, &api, &approvers[1], *id, verdicts[1])
                );
            }
            // All approvals of a run at once: each may be the last.
            _ => {
                let all = found.iter().filter(|(_, _, of)| of == run);
                let all = all.map(|(id, ..)| resolve(&world, &api, &approvers[0], *id, verdicts[0]));
                futures::future::join_all(all).await;
            }
        }
    }
}

fn verdict(rng: &mut StdRng) -> Verdict {
    if rng.random_bool(0.7) { Verdict::ApproveOnce } else { Verdict::Deny }
}

async fn resolve(world: &World, api: &Services, principal: &Principal, id: Uuid, verdict: Verdict) {
    let told = |status, by| world.remember(|facts| facts.decided.push(Decided { approval: id, status, by }));
    match api.approvals.resolve(principal, id, ResolveApproval { decision: verdict, reason: None }).await {
        Ok(view) => {
            let expected = if verdict == Verdict::Deny { ApprovalStatus::Denied } else { ApprovalStatus::Approved };
            if view.status != expected {
                world.wrong(format!("approval {id} was to become {expected} and was answered {view:?}"));
            }
            world.count("decisions");
            told(view.status, view.resolved_by);
        }
        Err(Error::Conflict(Conflict::ApprovalAlreadyResolved { decision, .. })) => {
            world.count("decisions in conflict");
            told(if decision == Decision::Deny { ApprovalStatus::Denied } else { ApprovalStatus::Approved }, None);
        }
        // That nobody may decide any more is said before maintenance has written it down.
        Err(Error::ApprovalClosed(ApprovalStatus::Expired)) => world.count("decisions after expiry"),
        Err(Error::ApprovalClosed(status)) => {
            world.count("decisions after the end");
            told(status, None);
        }
        Err(error) => world.judge("resolve", &error),
    }
}

/// A run that has asked, its question, and who may answer in which session.
type Asked = (Uuid, Uuid, String, String, Uuid);

/// Answers questions; until everything is over, since runs wait for it.
pub(super) async fn answer_for_ever(world: Arc<World>, api: Services, observer: PgPool) {
    let mut rng = world.rng();
    while world.stage() != Stage::Over {
        jitter(&mut rng, BETWEEN_ANSWERS_MAX).await;
        let status = if rng.random_bool(0.9) { "= 'OPEN'" } else { "<> 'OPEN'" };
        let query = format!(
            "SELECT q.run_id, q.id, r.tenant_id, r.principal_id, r.session_id FROM questions q JOIN runs r ON r.id = q.run_id
             WHERE q.status {status} ORDER BY q.created_at DESC LIMIT 8"
        );
        let found: Vec<Asked> = sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_all(&observer).await.unwrap();
        if found.is_empty() {
            continue;
        }
        let (run, question, tenant, name, session) = &found[rng.random_range(0..found.len())];
        let principal = Principal::new(tenant, name, Scope::ALL.iter().copied()).unwrap();
        let texts = [world.words(&mut rng), world.words(&mut rng)];
        let named = Some(*question);
        match rng.random_range(0..10) {
            0..3 => answer(&world, &api, &principal, *run, named, &texts[0]).await,
            // A message of its session is the answer, too.
            3..4 => clients::submit(&world, &api, Keys::Lasting, &mut rng, (principal, *session)).await,
            4..6 => clients::submit_twice(&world, &api, Keys::Lasting, &mut rng, (principal, *session)).await,
            6..7 => answer(&world, &api, &principal, *run, None, &texts[0]).await,
            // The same twice, and two that differ.
            7..8 => {
                tokio::join!(
                    answer(&world, &api, &principal, *run, named, &texts[0]),
                    answer(&world, &api, &principal, *run, named, &texts[0])
                );
            }
            _ => {
                tokio::join!(
                    answer(&world, &api, &principal, *run, named, &texts[0]),
                    answer(&world, &api, &principal, *run, None, &texts[1])
                );
            }
        }
    }
}

async fn answer(world: &World, api: &Services, principal: &Principal, run: Uuid, question_id: Option<Uuid>, text: &str) {
    match api.runs.input(principal, run, DeliverInput { content: text_content(text), question_id }).await {
        Ok(submitted) => {
            world.count("answers");
            if submitted.run_id != run {
                world.wrong(format!("an answer to run {run} was taken for {submitted:?}"));
            }
            world.remember(|facts| {
                facts.said.push((run, text.to_owned()));
                facts.answered.extend(question_id.map(|question| Answered { run, question, text: text.to_owned() }));
            });
        }
        Err(Error::Conflict(Conflict::QuestionAlreadyAnswered)) => world.count("answers in conflict"),
        Err(Error::InvalidStateTransition(_)) => world.count("answers too late"),
        Err(error) => world.judge("input", &error),
    }
}
