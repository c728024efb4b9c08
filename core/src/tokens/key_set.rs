//! The keys of a JSON Web Key Set that we can use, by their names.

use std::collections::HashMap;
use std::sync::Arc;

use jsonwebtoken::jwk::Jwk;
use serde::Deserialize;

use super::key::VerifyingKey;
use crate::config::Algorithm;

pub(super) type KeySet = HashMap<String, Arc<VerifyingKey>>;

/// None: not a key set, or none of its keys is for us, which must not take away the keys that there are.
pub(super) fn parse(bytes: &[u8], algorithms: &[Algorithm]) -> Option<KeySet> {
    #[derive(Deserialize)]
    struct Document {
        keys: Vec<serde_json::Value>,
    }
    let document: Document = serde_json::from_slice(bytes).ok()?;
    let mut keys = KeySet::new();
    // One by one: a key of a kind that nobody here knows says nothing of the others.
    for jwk in document.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok()) {
        if let Some((kid, key)) = VerifyingKey::published(&jwk, algorithms) {
            keys.insert(kid, Arc::new(key));
        }
    }
    (!keys.is_empty()).then_some(keys)
}
