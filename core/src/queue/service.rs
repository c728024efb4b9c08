//! What operators may know of the queue.

use sqlx::PgPool;

use crate::error::Error;
use crate::principal::Principal;
use crate::queue::store;
use crate::queue::view::QueueView;
use crate::scope::Scope;

#[derive(Debug, Clone)]
pub struct QueueService {
    pub(crate) pool: PgPool,
}

impl QueueService {
    /// # Errors
    /// The database's.
    pub async fn get(&self, principal: &Principal) -> Result<QueueView, Error> {
        principal.require(Scope::OperatorRead)?;
        Ok(QueueView { classes: store::classes(&self.pool, principal).await?, workers: store::workers(&self.pool).await? })
    }
}
