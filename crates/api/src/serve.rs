//! Assembles the APIs: puts routes behind the guard and authentication.

use std::error::Error as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_request};
use axum::response::Response;
use http::Uri;
use muster_proto::rest::Endpoint;
use tonic::{Code, Status};

use crate::access;
use crate::access_log;
use crate::auth::{Authenticators, UnauthenticatedCaller};
use crate::error::ApiError;
use crate::guard::{self, GuardSettings};
use crate::reauthenticate::Identified;
use crate::rest::{self, ErrorContext};

/// Builds the REST router of the core API, with guard and authentication.
pub fn router(endpoints: &[Endpoint], authenticators: Authenticators, guard: GuardSettings) -> Router {
    protect(rest::routes(endpoints), authenticators, guard)
}

/// Builds the gRPC router of the core API, with guard and authentication.
pub fn grpc_router(
    routes: tonic::service::Routes,
    authenticators: Authenticators,
    guard: GuardSettings,
) -> Router {
    let methods =
        routes.prepare().into_axum_router().layer(from_fn(refuse_undecodable)).layer(from_fn(authorize_grpc));
    layered(methods, authenticators, guard)
}

/// The field numbers of package `proto` that gRPC clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtoNumbering {
    /// The numbers of the KubeRay API server since its API `v1`.
    #[default]
    V1,
    /// The numbers of its API `v1alpha2`, until version 0.6: the same as in package `muster.v1alpha2`.
    V1alpha2,
}

impl ProtoNumbering {
    /// Serves package `proto` by the methods with these numbers.
    pub(crate) fn serve(self, methods: Router) -> Router {
        match self {
            Self::V1 => methods,
            Self::V1alpha2 => Router::new().fallback_service(methods).layer(map_request(to_v1alpha2)),
        }
    }
}

async fn to_v1alpha2(mut request: Request) -> Request {
    let mut parts = request.uri().clone().into_parts();
    let path = request.uri().path().strip_prefix("/proto.").map(|rest| format!("/muster.v1alpha2.{rest}"));
    if let Some(path) = path.and_then(|path| path.parse().ok()) {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Puts routes behind the guard and authentication, which inserts the principal into the request's extensions.
///
/// Adds the response to unknown paths, so the routes of all APIs have to be merged before.
pub fn protect(routes: Router, authenticators: Authenticators, guard: GuardSettings) -> Router {
    layered(routes.fallback(rest::unknown_path), authenticators, guard)
}

fn layered(routes: Router, authenticators: Authenticators, guard: GuardSettings) -> Router {
    routes
        .layer(from_fn_with_state(Arc::new(authenticators), authenticate))
        .layer(from_fn_with_state(Arc::new(guard), guard::guard))
}

/// Authorizes a gRPC request, whose path is the name of the method.
async fn authorize_grpc(mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    if !guard::is_probe(&path)
        && let Err(error) = access::authorize_method(&path, request.extensions_mut())
    {
        return ErrorContext::of(&request).render(&error.into());
    }
    next.run(request).await
}

/// The prefix of tonic's message for a request that cannot be decoded, which tonic reports as an internal error.
const UNDECODABLE: &str = "failed to decode Protobuf message";

/// Reports a message that cannot be decoded as an error of the caller instead of an internal error.
async fn refuse_undecodable(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.extensions().get::<Status>();
    let is_undecodable = |status: &&Status| {
        // Only statuses that were converted from an `ApiError` have a source.
        status.code() == Code::Internal
            && status.source().is_none()
            && status.message().starts_with(UNDECODABLE)
    };
    match status.filter(is_undecodable) {
        Some(status) => {
            let message = format!("the request is not a valid message of this method: {}", status.message());
            Status::from(ApiError::invalid(message)).into_http()
        }
        None => response,
    }
}

/// An extension of requests whose route needs no authentication; the API of the route inserts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublicRoute;

async fn authenticate(
    State(authenticators): State<Arc<Authenticators>>,
    mut request: Request,
    next: Next,
) -> Response {
    if guard::is_probe(request.uri().path()) || request.extensions().get::<PublicRoute>().is_some() {
        return next.run(request).await;
    }
    let caller = UnauthenticatedCaller { headers: request.headers() };
    match authenticators.identify(caller).await {
        Ok(principal) => {
            access_log::record_caller(&principal);
            let caller = Identified::new(authenticators, &request, principal.clone());
            request.extensions_mut().insert(principal);
            caller.bound(next.run(request).await)
        }
        Err(error) => ErrorContext::of(&request).render(&ApiError::from(error).into()),
    }
}
