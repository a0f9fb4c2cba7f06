//! Every route of the scaler API, its authorization, and its handler.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Method;
use muster_core::principal::Principal;
use muster_service::{AccessTarget, Case, Verb};

use super::call::ScalerCall;
use super::scaler_error::ScalerError;
use super::{ROOT, Scaler, clusters, head_tier, restart, restart_status, scale};
use crate::error::ApiError;
use crate::list_turn::ListTurn;

type ScalerHandler = fn(ScalerCall) -> BoxFuture<'static, Result<Response, ScalerError>>;

struct ScalerRoute {
    method: Method,
    /// The path, with parameters in braces.
    path: &'static str,
    case: Case,
    serve: ScalerHandler,
}

/// Declares the routes and the authorization of each.
macro_rules! routes {
    ($($method:ident $path:literal $verb:ident $subject:ident $($serve:ident)::+;)+) => {
        /// Every route of this API, with its authorization.
        pub const CASES: &[Case] = &[
            $(Case::new(concat!(stringify!($method), " ", $path), Verb::$verb, AccessTarget::$subject)),+
        ];

        fn all() -> Vec<ScalerRoute> {
            vec![$(ScalerRoute {
                method: Method::$method,
                path: $path,
                case: Case::new(concat!(stringify!($method), " ", $path), Verb::$verb, AccessTarget::$subject),
                serve: |call| async move { $($serve)::+(&call).await }.boxed(),
            }),+]
        }
    };
}

routes! {
    GET "/list/{kind}" See OwnClusters clusters::list;
    GET "/cluster/{kind}/{name}" See OwnCluster clusters::show;
    PATCH "/scale/{kind}/{name}" Change OwnCluster scale::scale;
    PATCH "/head-hw-tier/{kind}/{name}" Change OwnCluster head_tier::change;
    PATCH "/restart_head/{kind}/{name}" Change OwnCluster restart::restart;
    GET "/restart_head_status/{kind}/{name}" See OwnCluster restart_status::of_head;
    GET "/restart_status/{kind}/{name}/{node_type}" See OwnCluster restart_status::of_nodes;
}

impl Scaler {
    /// Returns the routes, without middleware.
    pub fn routes(&self) -> Router {
        let router = all().into_iter().fold(Router::new(), |router, route| {
            let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { return router };
            let (api, path, route) = (self.clone(), format!("{ROOT}{}", route.path), Arc::new(route));
            let serve = move |path, request| {
                let (api, route) = (api.clone(), Arc::clone(&route));
                async move { serve(api, &route, path, request).await }
            };
            router.route(&path, MethodRouter::new().on(filter, serve))
        });
        router.method_not_allowed_fallback(wrong_method)
    }
}

async fn serve(
    api: Scaler,
    route: &ScalerRoute,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let answered = async {
        let path = path.map_err(|_| ScalerError::bad_request("the path has bytes that are not UTF-8"))?;
        let path = path.iter().map(|(_, value)| value.to_owned()).collect();
        let is_list = route.case.subject == AccessTarget::OwnClusters;
        let caller = parts.extensions.get::<Principal>();
        let turn = if is_list { Some(ListTurn::wait(caller).await?) } else { None };
        let call = ScalerCall::read(api, &route.case, &parts, path, body).await?;
        let response = (route.serve)(call).await?;
        Ok(ListTurn::until_sent(turn, response))
    };
    answered.await.unwrap_or_else(|error: ScalerError| error.response())
}

async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let error = ApiError::wrong_method(format!("{method} is not allowed on {path}"));
    ScalerError::from(error).response()
}
