//! `agentctl doctor`: looks at what has to be there, and says what to do about what is not. Of providers it asks what costs nothing.

use baton_core::agents::Catalogue;
use baton_core::clock::Clock;
use baton_core::config::Config;
use baton_core::db::{self, Role, SchemaError};
use baton_core::error::chain;
use baton_core::fault::Faults;
use baton_core::models::{Policies, missing_key};
use baton_core::queue::QueueView;
use baton_core::{Principal, Scope, Services};
use serde::Serialize;

use crate::args::{Global, PRINCIPAL, TENANT};
use crate::commands::dev::provider::{ASSISTANT, Found};
use crate::connection::{self, running_dev};
use crate::exit::{Exit, Failure};
use crate::ready::DevReady;
use crate::render;

/// A run that has waited for so long although there are workers is worth a look.
const WAITS_LONG_SECONDS: f64 = 60.0;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    /// What was found, and what to do where it is not well.
    says: String,
}

pub(crate) async fn run(global: &Global) -> Result<(), Failure> {
    let mut checks = Vec::new();
    if let Err(failed) = examine(global, &mut checks).await {
        checks.push(failed); // what comes after it cannot be looked at
    }
    if global.json {
        render::json(&checks)?;
    } else {
        checks.iter().for_each(|Check { name, ok, says }| println!("{}  {name:<9} {says}", if *ok { "ok" } else { "NO" }));
    }
    match checks.iter().filter(|check| !check.ok).count() {
        0 => Ok(()),
        wrong => Err(Failure::new(Exit::Unavailable, format!("{wrong} of {} checks failed", checks.len()))),
    }
}

async fn examine(global: &Global, checks: &mut Vec<Check>) -> Result<(), Check> {
    let settings = Config::load(global.config.as_deref()).map_err(|error| bad("settings", chain(&error)))?;
    checks.push(good("settings", "read"));
    checks.extend(models(settings.clone(), running_dev(&global.data_dir)).await);
    let config = connection::config(global).map_err(|failure| bad("database", failure.to_string()))?;
    let pool = db::connect(&config.database, Role::Command).map_err(|error| bad("database", chain(&error)))?;
    let schema = db::check_schema(&pool).await;
    if let Err(error @ SchemaError::Database(_)) = &schema {
        let is_of_dev = settings.database.url.is_none();
        let advice =
            if is_of_dev { "the `agentctl dev` that was here has died: start it again" } else { "is Postgres running there?" };
        return Err(bad("database", format!("{}; {advice}", connection::no_database(&config, error))));
    }
    checks.push(good("database", "answers"));
    schema.map_err(|error| bad("schema", chain(&error)))?;
    checks.push(good("schema", "is that of this program"));
    let operator = Principal::new(TENANT, PRINCIPAL, [Scope::OperatorRead]).map_err(|error| bad("worker", chain(&error)))?;
    let services = Services::open(&config, Role::Command, pool, Clock::system(), Catalogue::default(), Faults::default())
        .map_err(|error| bad("artifacts", chain(&error)))?;
    let queue = services.queue.get(&operator).await.map_err(|error| bad("worker", chain(&error)))?;
    checks.extend([workers(&queue), waiting(&queue)]);
    Ok(())
}

/// Each model policy, as it is here: workers elsewhere have variables of their own, and `dev` gives some to its own alone.
async fn models(mut config: Config, dev: Option<DevReady>) -> Vec<Check> {
    let found = Found::by(&config, |name| std::env::var(name).ok());
    let of_dev = dev.and_then(|dev| dev.assistant).filter(|_| found.is_none());
    if let Some(found) = found {
        config.models.entry(ASSISTANT.into()).or_insert_with(|| found.model());
    }
    let policies = match Policies::new(&config) {
        Ok(policies) => policies,
        Err(error) => return vec![bad("models", error.to_string().replace('\n', "; "))],
    };
    let mut checks = Vec::new();
    for policy in policies.all() {
        let Some(endpoint) = &policy.endpoint else { continue };
        let who = format!("`{}` asks {} by {}", policy.name, policy.model, policy.provider);
        let missing = missing_key(endpoint, |name| std::env::var(name).ok());
        checks.push(match missing {
            Some(advice) => bad("models", format!("{who}: {advice} where its workers run")),
            None => match baton_worker::probe(policy).await {
                Ok(()) => good("models", who),
                Err(problem) => bad("models", format!("{who}: {problem}")),
            },
        });
    }
    checks.extend(of_dev.map(|found| good("models", format!("`{ASSISTANT}` of the running `dev` asks {}", found.label()))));
    if checks.is_empty() {
        checks.push(good("models", "only `scripted`, which plays what an agent's file says"));
    }
    checks
}

fn workers(queue: &QueueView) -> Check {
    match queue.workers.len() {
        0 => bad("worker", "none is alive: start `agentctl worker`"),
        alive => good("worker", format!("{alive} alive")),
    }
}

fn waiting(queue: &QueueView) -> Check {
    let oldest = queue.classes.iter().filter_map(|class| class.oldest_age_seconds).fold(0.0, f64::max);
    if oldest > WAITS_LONG_SECONDS {
        return bad(
            "queue",
            format!("a run has waited for {oldest:.0} s: `agentctl runs list --status queued`, then `agentctl why RUN`"),
        );
    }
    good("queue", "nothing waits for long")
}

fn good(name: &'static str, says: impl Into<String>) -> Check {
    Check { name, ok: true, says: says.into() }
}

fn bad(name: &'static str, says: impl Into<String>) -> Check {
    Check { name, ok: false, says: says.into() }
}
