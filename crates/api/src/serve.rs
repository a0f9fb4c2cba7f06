//! The doors put together: routes behind the guard and behind authentication.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use muster_proto::rest::Endpoint;

use crate::access;
use crate::auth::{Authenticators, Caller};
use crate::error::ApiError;
use crate::guard::{self, GuardSettings};
use crate::{clustering, identity, requests, rest};

/// The REST side of the core API, guarded and authenticated.
pub fn router(endpoints: &[Endpoint], authenticators: Authenticators, guard: GuardSettings) -> Router {
    protect(rest::routes(endpoints), authenticators, guard)
}

/// The gRPC side of the core API, guarded and authenticated.
pub fn grpc_router(
    routes: tonic::service::Routes,
    authenticators: Authenticators,
    guard: GuardSettings,
) -> Router {
    let methods = routes.prepare().into_axum_router().layer(from_fn(authorize_grpc));
    layered(methods, authenticators, guard)
}

/// Puts routes behind the guard and behind authentication; whoever calls is in the request's extensions.
///
/// Unknown paths get their answer here, so routes of other doors are merged before.
pub fn protect(routes: Router, authenticators: Authenticators, guard: GuardSettings) -> Router {
    layered(routes.fallback(rest::unknown_path), authenticators, guard)
}

fn layered(routes: Router, authenticators: Authenticators, guard: GuardSettings) -> Router {
    routes
        .layer(from_fn_with_state(Arc::new(authenticators), authenticate))
        .layer(from_fn_with_state(Arc::new(guard), guard::guard))
}

/// Over gRPC the path is the method.
async fn authorize_grpc(mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    if !guard::is_probe(&path)
        && let Err(error) = access::authorize_method(&path, request.extensions_mut())
    {
        return rest::refuse(&path, request.headers(), &error.into());
    }
    next.run(request).await
}

async fn authenticate(
    State(authenticators): State<Arc<Authenticators>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if guard::is_probe(path) || clustering::is_open(path) || identity::is_open(path) {
        return next.run(request).await;
    }
    let caller = Caller { headers: request.headers() };
    match authenticators.identify(caller).await {
        Ok(principal) => {
            requests::known(&principal);
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(error) => {
            let status = ApiError::from(error).into();
            rest::refuse(request.uri().path(), request.headers(), &status)
        }
    }
}
