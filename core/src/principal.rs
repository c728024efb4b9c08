//! Who is asking.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use crate::error::{Error, Problem};
use crate::scope::Scope;

/// Longest tenant or principal identifier, in characters; the schema's CHECK says the same.
pub const IDENTIFIER_CHARS_MAX: usize = 255;

/// The caller of a service, as authentication found it. Nothing downstream reads a credential again, and no tenant is ever
/// taken from a path, a query, a header or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub tenant_id: String,
    pub principal_id: String,
    pub scopes: BTreeSet<Scope>,
    /// From when on its credential is not accepted; a stream ends then. None: there is no credential that could expire.
    pub expires_at: Option<OffsetDateTime>,
}

/// Who a principal is, whatever it may do: to count by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    tenant_id: String,
    principal_id: String,
}

impl Principal {
    /// # Errors
    /// `Malformed` where an identifier is empty, too long or holds a control character.
    pub fn new(
        tenant_id: impl Into<String>,
        principal_id: impl Into<String>,
        scopes: impl IntoIterator<Item = Scope>,
    ) -> Result<Self, Error> {
        let principal = Self {
            tenant_id: tenant_id.into(),
            principal_id: principal_id.into(),
            scopes: scopes.into_iter().collect(),
            expires_at: None,
        };
        let problems: Vec<Problem> = [("tenant", &principal.tenant_id), ("principal", &principal.principal_id)]
            .into_iter()
            .filter(|(_, id)| !(1..=IDENTIFIER_CHARS_MAX).contains(&id.chars().count()) || id.chars().any(char::is_control))
            .map(|(path, _)| Problem { path: path.into(), message: "1 to 255 characters without controls".into() })
            .collect();
        if problems.is_empty() { Ok(principal) } else { Err(Error::Malformed(problems)) }
    }

    /// The fixed principal of dev mode: tenant `dev`, principal `dev`, every scope.
    pub fn dev() -> Self {
        Self {
            tenant_id: "dev".into(),
            principal_id: "dev".into(),
            scopes: Scope::ALL.iter().copied().collect(),
            expires_at: None,
        }
    }

    pub fn identity(&self) -> Identity {
        Identity { tenant_id: self.tenant_id.clone(), principal_id: self.principal_id.clone() }
    }

    /// # Errors
    /// `Authorization` where the scope is not held.
    pub fn require(&self, scope: Scope) -> Result<(), Error> {
        if self.scopes.contains(&scope) { Ok(()) } else { Err(Error::Authorization(scope)) }
    }

    /// Whose resources this principal may read: its own, or with `operator.read` everybody's in the tenant. `None` is
    /// "everybody's", as the statements take it.
    pub(crate) fn reads_owner(&self) -> Option<&str> {
        (!self.scopes.contains(&Scope::OperatorRead)).then_some(self.principal_id.as_str())
    }
}
