//! Those who submit, cancel and create, by the services that handlers call.

use std::sync::Arc;
use std::time::Duration;

use baton_core::content::text_of;
use baton_core::error::Conflict;
use baton_core::idempotency::IdempotencyKey;
use baton_core::runs::{LimitWishes, Priority, RunStatus, SubmitMessage};
use baton_core::{Error, Principal, Services};
use rand::Rng;
use rand::rngs::StdRng;
use uuid::Uuid;

use super::facts::Key;
use super::world::{Stage, World, demo, jitter};

const BETWEEN_SUBMISSIONS_MAX: Duration = Duration::from_millis(10);
const BETWEEN_CANCELS_MAX: Duration = Duration::from_millis(400);
const BETWEEN_CREATIONS_MAX: Duration = Duration::from_millis(300);

/// How long the keys of an API live: for ever, as far as this test goes, or shorter than the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Lasting,
    Brief,
}

impl Keys {
    /// A key of somebody's own, one that many use at this moment, or none.
    fn choose(self, world: &World, rng: &mut StdRng) -> Option<String> {
        match rng.random_range(0..10) {
            0..4 => None,
            4..7 => Some(format!("{self:?}-{:x}", rng.random::<u64>())),
            _ => Some(format!("{self:?}-hot-{}-{}", world.clock().elapsed().as_secs(), rng.random_range(0..3))),
        }
    }

    fn remember(self, world: &World, principal: &Principal, key: Option<String>, created: Uuid) {
        if let (Self::Lasting, Some(key)) = (self, key) {
            world.remember(|facts| facts.keys.push(Key { tenant: principal.tenant_id.clone(), key, created }));
        }
    }
}

pub(super) async fn submit_for_ever(world: Arc<World>, api: Services, keys: Keys) {
    let mut rng = world.rng();
    while world.stage() == Stage::Torture {
        jitter(&mut rng, BETWEEN_SUBMISSIONS_MAX).await;
        let seat = world.session(&mut rng);
        submit(&world, &api, keys, &mut rng, seat).await;
    }
}

pub(super) async fn submit(world: &World, api: &Services, keys: Keys, rng: &mut StdRng, seat: (Principal, Uuid)) {
    let (key, message) = (keys.choose(world, rng), message(world, rng));
    send(world, api, keys, &seat, key, message).await;
}

/// The same message twice at once, under a key that nobody else has.
pub(super) async fn submit_twice(world: &World, api: &Services, keys: Keys, rng: &mut StdRng, seat: (Principal, Uuid)) {
    let key = Some(format!("{keys:?}-twice-{:x}", rng.random::<u64>()));
    let message = message(world, rng);
    tokio::join!(send(world, api, keys, &seat, key.clone(), message.clone()), send(world, api, keys, &seat, key, message));
}

fn message(world: &World, rng: &mut StdRng) -> SubmitMessage {
    SubmitMessage {
        limits: LimitWishes { deadline_seconds: rng.random_bool(0.15).then_some(1), ..LimitWishes::default() },
        priority: if rng.random() { Priority::Interactive } else { Priority::Async },
        ..SubmitMessage::text(world.words(rng))
    }
}

async fn send(
    world: &World,
    api: &Services,
    keys: Keys,
    (principal, session): &(Principal, Uuid),
    key: Option<String>,
    message: SubmitMessage,
) {
    let session = *session;
    let path = format!("/v1/sessions/{session}/messages");
    let request = key.as_deref().map(|key| IdempotencyKey::new(key, "POST", &path, "{}").unwrap());
    let text = text_of(&message.content);
    match api.runs.submit(principal, session, request, message).await {
        Ok(submitted) => {
            world.count(if submitted.replayed { "replayed" } else { "submitted" });
            if submitted.session_id != session || (submitted.replayed && key.is_none()) {
                world.wrong(format!("a submission to {session} with key {key:?} was answered {submitted:?}"));
            }
            world.submitted(principal, submitted.run_id);
            world.remember(|facts| {
                facts.submitted.push((submitted.run_id, session));
                if !submitted.replayed {
                    facts.said.push((submitted.run_id, text));
                }
            });
            keys.remember(world, principal, key, submitted.run_id);
        }
        Err(Error::Conflict(Conflict::ActiveRun { .. })) => world.count("busy"),
        Err(Error::Conflict(Conflict::IdempotencyKeyReused)) if key.is_some() => world.count("keys reused"),
        Err(error) => world.judge("submit", &error),
    }
}

pub(super) async fn cancel_for_ever(world: Arc<World>, api: Services) {
    let mut rng = world.rng();
    while world.stage() == Stage::Torture {
        jitter(&mut rng, BETWEEN_CANCELS_MAX).await;
        if let Some((principal, run)) = world.recent(&mut rng) {
            cancel(&world, &api, &principal, run).await;
        }
    }
}

pub(super) async fn cancel(world: &World, api: &Services, principal: &Principal, run: Uuid) {
    match api.runs.cancel(principal, run, Duration::ZERO).await {
        Ok(view) if view.status == RunStatus::Cancelled => {
            world.count("cancelled");
            world.remember(|facts| facts.cancelled.push(run));
        }
        Ok(view) if view.cancel.is_some() => {
            world.count("cancel requested");
            world.remember(|facts| facts.cancel_requested.push(run));
        }
        Ok(view) if view.status.is_terminal() => world.count("cancelled too late"),
        Ok(view) => world.wrong(format!("a cancel was acknowledged and forgotten: {view:?}")),
        Err(error) => world.judge("cancel", &error),
    }
}

pub(super) async fn create_for_ever(world: Arc<World>, api: Services) {
    let mut rng = world.rng();
    while world.stage() == Stage::Torture {
        jitter(&mut rng, BETWEEN_CREATIONS_MAX).await;
        let principal = world.principal(&mut rng);
        let key = Keys::Lasting.choose(&world, &mut rng);
        let request = key.as_deref().map(|key| IdempotencyKey::new(key, "POST", "/v1/sessions", "{}").unwrap());
        match api.sessions.create(&principal, request, demo()).await {
            Ok(created) => {
                world.count("sessions created");
                world.remember(|facts| facts.created.push(created.session.id));
                Keys::Lasting.remember(&world, &principal, key, created.session.id);
                world.reseat(&mut rng, &principal, created.session.id);
            }
            Err(Error::Conflict(Conflict::IdempotencyKeyReused)) if key.is_some() => world.count("keys reused"),
            Err(error) => world.judge("create", &error),
        }
    }
}
