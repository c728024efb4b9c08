//! Waiting on a condition, with a deadline; never on time.

use std::future::Future;
use std::time::Duration;

/// Longer than anything that works takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Asks again and again until there is something.
pub(crate) async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    within(DEADLINE, what, &mut ask).await
}

pub(crate) async fn within<T, F>(deadline: Duration, what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let found = tokio::time::timeout(deadline, async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("waited {deadline:?} in vain: {what}"))
}
