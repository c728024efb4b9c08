//! Who may call what, and how that is documented. A route cannot be registered without either: its handler is only reachable
//! through its gate.

use std::future::Future;
use std::pin::Pin;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use baton_core::{Error, Scope};

use crate::body;
use crate::error::ApiError;
use crate::openapi::{Documented, Operation};
use crate::state::ApiState;

/// What a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing, not even a credential.
    Public,
    /// Any credential that is good, whatever it may do.
    Authenticated,
    Scope(Scope),
}

/// What a route does with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// One that is not empty is refused.
    Nothing,
    Json,
}

/// One line of the table of routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    /// As axum writes it: `/v1/runs/{run_id}`.
    pub path: &'static str,
    pub access: Access,
    pub takes: Takes,
}

/// The routes and the table of them, which cannot differ.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    router: Router<ApiState>,
    table: Vec<Documented>,
}

impl Routes {
    pub(crate) fn public<T: 'static>(
        self,
        method: Method,
        path: &'static str,
        handler: impl Handler<T, ApiState>,
        operation: fn() -> Operation,
    ) -> Self {
        self.register(Route { method, path, access: Access::Public, takes: Takes::Nothing }, handler, operation)
    }

    /// For whoever has a credential, and without a body.
    pub(crate) fn authenticated<T: 'static>(
        self,
        method: Method,
        path: &'static str,
        handler: impl Handler<T, ApiState>,
        operation: fn() -> Operation,
    ) -> Self {
        self.register(Route { method, path, access: Access::Authenticated, takes: Takes::Nothing }, handler, operation)
    }

    pub(crate) fn guarded<T: 'static>(
        self,
        method: Method,
        path: &'static str,
        scope: Scope,
        takes: Takes,
        handler: impl Handler<T, ApiState>,
        operation: fn() -> Operation,
    ) -> Self {
        self.register(Route { method, path, access: Access::Scope(scope), takes }, handler, operation)
    }

    fn register<T: 'static>(mut self, route: Route, handler: impl Handler<T, ApiState>, operation: fn() -> Operation) -> Self {
        let filter = MethodFilter::try_from(route.method.clone()).expect("routes are registered with the methods of HTTP only");
        self.router = self.router.route(route.path, on(filter, Gate { access: route.access, takes: route.takes, handler }));
        self.table.push(Documented { route, operation });
        self
    }

    pub(crate) fn into_router(self) -> Router<ApiState> {
        self.router
    }

    pub(crate) fn into_documented(self) -> Vec<Documented> {
        self.table
    }
}

/// A handler behind the first checks of http-api.md, in their order: body size and media type, credential, scope.
#[derive(Debug, Clone)]
struct Gate<H> {
    access: Access,
    takes: Takes,
    handler: H,
}

impl<H> Gate<H> {
    /// Lets a request in, with its [`baton_core::Principal`] among the extensions unless the route is public.
    async fn admit(&self, request: Request, state: &ApiState) -> Result<Request, Error> {
        let (mut parts, body) = body::admit(request, self.takes).await?.into_parts();
        if self.access != Access::Public {
            let principal = state.authenticator.authenticate(&parts.headers).await?;
            if let Access::Scope(scope) = self.access {
                principal.require(scope)?;
            }
            parts.extensions.insert(principal);
        }
        Ok(Request::from_parts(parts, body))
    }
}

impl<H: Handler<T, ApiState>, T> Handler<T, ApiState> for Gate<H> {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, state: ApiState) -> Self::Future {
        Box::pin(async move {
            match self.admit(request, &state).await {
                Ok(request) => self.handler.call(request, state).await,
                Err(error) => ApiError::from(error).into_response(),
            }
        })
    }
}

#[cfg(test)]
mod tests;
