//! The database of `dev`: the one that is named, or a private cluster.

use std::path::Path;

use baton_core::config::Config;
use baton_core::db::{self, Role};
use baton_devdb::{Cluster, Download, Options, databases};

use crate::exit::Failure;
use crate::note::note;

/// The database within the private cluster.
const NAME: &str = "baton";

#[derive(Debug)]
pub(super) struct Database {
    pub(super) url: String,
    cluster: Option<Cluster>,
}

impl Database {
    /// Blocks the main thread while a cluster starts: nothing else runs yet, and the cluster's death signal belongs to it.
    pub(super) async fn start(config: &Config, data_dir: &Path, no_download: bool) -> Result<Self, Failure> {
        let failed = |error: baton_devdb::Error| Failure::unavailable("the private Postgres", &error);
        let database = match &config.database.url {
            Some(url) => Self { url: url.clone(), cluster: None },
            None => {
                let mut options = Options::new(data_dir.join("pg"));
                if no_download {
                    options.download = Download::Refused;
                }
                let cluster = Cluster::start(&options).map_err(failed)?;
                let url = databases::create_if_missing(&cluster, NAME).await.map_err(failed)?;
                Self { url, cluster: Some(cluster) }
            }
        };
        let settings = baton_core::config::Database { url: Some(database.url.clone()), ..config.database.clone() };
        let pool = db::connect(&settings, Role::Command)?;
        db::apply_migrations(&pool).await.map_err(|error| Failure::unavailable("migrating", &error))?;
        pool.close().await;
        Ok(database)
    }

    /// Starts a private cluster again that has died. True: it did.
    pub(super) fn revive(&mut self) -> bool {
        let Some(cluster) = &mut self.cluster else { return false };
        match cluster.try_wait() {
            Ok(Some(status)) => {
                note!("Postgres ended ({status}); starting it again");
                if let Err(error) = cluster.restart() {
                    note!("Postgres does not start: {error}");
                }
                true
            }
            Ok(None) => false,
            Err(error) => {
                note!("Postgres cannot be looked at: {error}");
                false
            }
        }
    }

    pub(super) fn stop(self) {
        if let Some(mut cluster) = self.cluster
            && let Err(error) = cluster.stop()
        {
            note!("Postgres did not stop: {error}");
        }
    }
}
