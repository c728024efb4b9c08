//! Those who sweep, kill and watch.

use std::sync::Arc;
use std::time::Duration;

use baton_core::artifacts::ArtifactStore;
use baton_core::config;
use baton_core::execution::maintenance::Maintenance;
use baton_core::notify::Notifier;
use rand::Rng;
use sqlx::PgPool;

use super::world::{Stage, World, jitter};
use crate::support::violations;

const LEASE_LOSSES_MAX: u16 = 3;

const BETWEEN_SWEEPS_MAX: Duration = Duration::from_millis(200);
const BETWEEN_KILLS_MAX: Duration = Duration::from_millis(250);
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

/// Maintenance looks for expired keys once a minute; its minutes are a tenth of a second here.
const HASTE: u32 = 600;

pub(super) async fn sweep_for_ever(world: Arc<World>, pool: PgPool) {
    let mut rng = world.rng();
    let folder = tempfile::tempdir().unwrap();
    let artifacts = ArtifactStore::open(&config::Artifacts { folder: folder.path().to_owned() }, world.clock().clone()).unwrap();
    let mut maintenance = Maintenance::new(pool, Notifier::off(), artifacts, LEASE_LOSSES_MAX);
    while world.stage() != Stage::Over {
        jitter(&mut rng, BETWEEN_SWEEPS_MAX).await;
        match maintenance.pass(world.clock().elapsed() * HASTE).await {
            Ok(Some(swept)) => {
                world.count("sweeps");
                world.count_by("workers marked dead", swept.workers_marked_dead as u64);
                world.count_by("requeued by sweep", swept.runs_requeued as u64);
                world.count_by("failed by sweep", swept.runs_failed as u64);
                if swept.runs_repaired > 0 {
                    world.wrong(format!("{} runs waited for nothing", swept.runs_repaired));
                }
            }
            Ok(None) => world.count("sweeps locked out"),
            Err(error) => world.judge("sweep", &error),
        }
    }
}

/// Ends backends of the product, by its name, preferably in the middle of something.
pub(super) async fn kill_for_ever(world: Arc<World>, pool: PgPool) {
    let mut rng = world.rng();
    while world.stage() == Stage::Torture {
        jitter(&mut rng, BETWEEN_KILLS_MAX).await;
        let killed: i64 = sqlx::query_scalar(
            "SELECT count(pg_terminate_backend(v.pid)) FROM (
                SELECT a.pid FROM pg_stat_activity a
                WHERE a.datname = current_database() AND a.application_name IN ('baton api', 'baton worker') AND (a.state <> 'idle' OR $1)
                ORDER BY random() LIMIT 1) v",
        )
        .bind(rng.random_bool(0.2))
        .fetch_one(&pool)
        .await
        .unwrap();
        world.count_by("backends killed", killed.unsigned_abs());
    }
}

/// In every snapshot each log is dense from its first event to its session's counter: whoever follows a watermark misses
/// nothing.
pub(super) async fn watch_for_ever(world: Arc<World>, pool: PgPool) {
    while world.stage() != Stage::Over {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        world.count("snapshots looked at");
        for wrong in violations(&pool).await {
            world.wrong(format!("in a snapshot: {wrong}"));
        }
    }
}
