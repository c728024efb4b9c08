//! Effects, counted outside of everything that could be wrong about them.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::PgPool;

/// # Panics
/// Where a call has more lines than its state allows, or fewer.
pub(super) async fn check(pool: &PgPool, lines: &[String]) {
    let mut by_key: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let effect: Value = serde_json::from_str(line).unwrap();
        *by_key.entry(effect["key"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let calls: Vec<(String, String)> =
        sqlx::query_as("SELECT idempotency_key, status FROM tool_invocations WHERE tool_name = 'demo.external_write'")
            .fetch_all(pool)
            .await
            .unwrap();
    let mut wrong = Vec::new();
    for (key, status) in calls {
        let effects = by_key.remove(&key).unwrap_or(0);
        let allowed = match status.as_str() {
            "COMPLETED" => effects == 1,
            "UNCERTAIN" => effects <= 1,
            _ => effects == 0,
        };
        if !allowed {
            wrong.push(format!("a call that is {status} had {effects} effects"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(by_key.is_empty(), "effects that no call has asked for: {by_key:?}");
}
