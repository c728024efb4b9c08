//! Where the bytes of an artifact are: `<16 hex of the tenant's hash>/<session>/<artifact>`.
//!
//! Nothing in a key is chosen by a model or a client, so none can name another's object or leave the folder.

use object_store::path::Path;
use uuid::Uuid;

use crate::canonical;

/// Of the tenant's hash: enough that tenants do not meet, short enough to look at. Should two meet, the rest still differs.
const TENANT_HEX: usize = 16;

pub(super) fn of(tenant_id: &str, session_id: Uuid, artifact_id: Uuid) -> Path {
    let tenant = canonical::sha256_hex(tenant_id);
    Path::from_iter([&tenant[..TENANT_HEX], &session_id.to_string(), &artifact_id.to_string()])
}

/// The artifact that a key belongs to. None: not a key of ours, and nothing that we may touch.
pub(super) fn artifact_id(key: &Path) -> Option<Uuid> {
    let parts: Vec<_> = key.parts().collect();
    let [tenant, session, artifact] = parts.as_slice() else { return None };
    let is_tenant = tenant.as_ref().len() == TENANT_HEX && tenant.as_ref().bytes().all(|byte| byte.is_ascii_hexdigit());
    let session = hyphenated(session.as_ref());
    if is_tenant { session.and(hyphenated(artifact.as_ref())) } else { None }
}

/// As we write it, and no other of the forms that a parser takes.
fn hyphenated(text: &str) -> Option<Uuid> {
    text.parse().ok().filter(|id: &Uuid| id.to_string() == text)
}
