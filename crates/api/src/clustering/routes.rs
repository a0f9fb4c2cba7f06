//! Every route of the clustering API, its authorization, and its handler.

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Method;
use muster_service::{AccessTarget, Case, Verb};

use super::call::ClusteringCall;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::version::MicroVersion;
use super::{
    Clustering, ROOT, V1, actions, adoption, attributes, cluster_actions, clusters, events, node_changes,
    nodes, operations, policies, policy_types, profile_types, profiles, receivers, service, triggers,
    versions,
};
use crate::error::ApiError;
use crate::list_turn::ListTurn;

/// The authorization of a route, as abbreviated in the table below.
#[derive(Clone, Copy)]
enum Needs {
    Open,
    See,
    Change,
    Administer,
    Closed,
}

const fn needs(operation: &'static str, needs: Needs) -> Case {
    match needs {
        Needs::Open => Case::new(operation, Verb::Change, AccessTarget::Public),
        Needs::See => Case::new(operation, Verb::See, AccessTarget::Project),
        Needs::Change => Case::new(operation, Verb::Change, AccessTarget::Project),
        Needs::Administer => Case::new(operation, Verb::Administer, AccessTarget::Server),
        Needs::Closed => Case::new(operation, Verb::Change, AccessTarget::Closed),
    }
}

type ClusteringHandler = fn(ClusteringCall) -> BoxFuture<'static, Result<Reply, SenlinError>>;

/// A route below `/v1`.
struct ClusteringRoute {
    method: Method,
    /// The path, with parameters in braces.
    path: &'static str,
    case: Case,
    /// The version that added the route.
    since: MicroVersion,
    /// True if many objects are read for the response.
    is_list: bool,
    serve: ClusteringHandler,
}

/// Calls a handler: `always` for one that cannot fail, `now` for a synchronous one, `later` for an asynchronous one, and
/// `list` for an asynchronous one that reads many objects.
macro_rules! answer {
    (always $answer:expr) => {
        Ok($answer)
    };
    (now $answer:expr) => {
        $answer
    };
    (later $answer:expr) => {
        $answer.await
    };
    (list $answer:expr) => {
        $answer.await
    };
}

macro_rules! is_list {
    (list) => {
        true
    };
    ($other:ident) => {
        false
    };
}

/// Declares the routes below `/v1` and the authorization of each.
macro_rules! routes {
    ($($method:ident $path:literal $access:ident $since:literal $when:ident $($serve:ident)::+;)+) => {
        /// Every route below `/v1`, with its authorization.
        pub const CASES: &[Case] = &[
            $(needs(concat!(stringify!($method), " ", $path), Needs::$access)),+
        ];

        fn all() -> Vec<ClusteringRoute> {
            vec![$(ClusteringRoute {
                method: Method::$method,
                path: $path,
                case: needs(concat!(stringify!($method), " ", $path), Needs::$access),
                since: MicroVersion($since),
                is_list: is_list!($when),
                serve: |call| async move { answer!($when $($serve)::+(&call)) }.boxed(),
            }),+]
        }
    };
}

// Readers cannot see receivers, since anyone who knows the id of a receiver can trigger it.
routes! {
    GET "/profile-types" See 0 always profile_types::list;
    GET "/profile-types/{type}" See 0 now profile_types::show;
    GET "/profile-types/{type}/ops" See 4 now profile_types::operations;
    GET "/profiles" See 0 list profiles::list;
    POST "/profiles" Change 0 later profiles::create;
    POST "/profiles/validate" See 2 later profiles::validate;
    GET "/profiles/{id}" See 0 later profiles::show;
    PATCH "/profiles/{id}" Change 0 later profiles::update;
    DELETE "/profiles/{id}" Change 0 later profiles::delete;
    GET "/policy-types" See 0 always policy_types::list;
    GET "/policy-types/{type}" See 0 now policy_types::show;
    GET "/policies" See 0 list policies::list;
    POST "/policies" Change 0 later policies::create;
    POST "/policies/validate" See 2 now policies::validate;
    GET "/policies/{id}" See 0 later policies::show;
    PATCH "/policies/{id}" Change 0 later policies::update;
    DELETE "/policies/{id}" Change 0 later policies::delete;
    GET "/clusters" See 0 list clusters::list;
    POST "/clusters" Change 0 later clusters::create;
    GET "/clusters/{id}" See 0 later clusters::show;
    PATCH "/clusters/{id}" Change 0 later clusters::update;
    DELETE "/clusters/{id}" Change 0 later clusters::delete;
    POST "/clusters/{id}/actions" Change 0 later cluster_actions::act;
    POST "/clusters/{id}/ops" Change 4 later operations::on_cluster;
    GET "/clusters/{id}/attrs/{path}" See 2 list attributes::collect;
    GET "/clusters/{id}/policies" See 0 list policies::of_cluster;
    GET "/clusters/{id}/policies/{policy}" See 0 later policies::one_of_cluster;
    GET "/nodes" See 0 list nodes::list;
    POST "/nodes" Change 0 later node_changes::create;
    POST "/nodes/adopt" Change 7 later adoption::adopt;
    POST "/nodes/adopt-preview" Change 7 later adoption::preview;
    GET "/nodes/{id}" See 0 later nodes::show;
    PATCH "/nodes/{id}" Change 0 later node_changes::update;
    DELETE "/nodes/{id}" Change 0 later node_changes::delete;
    POST "/nodes/{id}/actions" Change 0 later node_changes::act;
    POST "/nodes/{id}/ops" Change 4 later operations::on_node;
    GET "/actions" See 0 list actions::list;
    POST "/actions" Closed 0 now actions::create;
    GET "/actions/{id}" See 0 later actions::show;
    PATCH "/actions/{id}" Change 12 later actions::update;
    GET "/events" See 0 list events::list;
    GET "/events/{id}" See 0 later events::show;
    GET "/receivers" Change 0 list receivers::list;
    POST "/receivers" Change 0 later receivers::create;
    GET "/receivers/{id}" Change 0 later receivers::show;
    PATCH "/receivers/{id}" Change 0 later receivers::update;
    DELETE "/receivers/{id}" Change 0 later receivers::delete;
    POST "/receivers/{id}/notify" Change 0 later receivers::notify;
    POST "/webhooks/{id}/trigger" Open 0 later triggers::trigger;
    GET "/build-info" See 0 always service::build_info;
    GET "/services" Administer 0 list service::list;
}

/// Returns true if a route needs no authentication.
pub(super) fn is_public(path: &str) -> bool {
    let Some(rest) = path.strip_prefix(ROOT) else { return false };
    let trigger = |rest: &str| rest.starts_with("/v1/webhooks/") && rest.ends_with("/trigger");
    matches!(rest, "" | "/" | "/versions" | "/v1" | "/v1/") || trigger(rest)
}

impl Clustering {
    /// Returns the routes, without middleware.
    pub fn routes(&self) -> Router {
        let mut by_path: std::collections::BTreeMap<String, MethodRouter> = std::collections::BTreeMap::new();
        for route in all() {
            let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
            let methods = by_path.entry(format!("{V1}{}", route.path)).or_default();
            let (api, route) = (self.clone(), std::sync::Arc::new(route));
            *methods = std::mem::take(methods).on(filter, move |path, request| {
                let (api, route) = (api.clone(), std::sync::Arc::clone(&route));
                async move { serve(api, &route, path, request).await }
            });
        }
        let tls = self.tls;
        let list = move |request: Request| async move { versions::list(&request.into_parts().0, tls) };
        let one = move |request: Request| async move { versions::show(&request.into_parts().0, tls) };
        let mut router = Router::new();
        for path in ["", "/", "/versions"] {
            router = router.route(&format!("{ROOT}{path}"), axum::routing::get(list));
        }
        for path in ["", "/"] {
            router = router.route(&format!("{V1}{path}"), axum::routing::get(one));
        }
        by_path
            .into_iter()
            .fold(router, |router, (path, methods)| router.route(&path, methods))
            .method_not_allowed_fallback(wrong_method)
    }
}

async fn serve(
    api: Clustering,
    route: &ClusteringRoute,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let tls = api.tls;
    let answered = async {
        let path = path.map_err(|_| SenlinError::bad("The path has bytes that are not UTF-8"))?;
        let path = path.iter().map(|(_, value)| value.to_owned()).collect();
        let mut call = ClusteringCall::read(api, &parts, path, body, tls).await?;
        let version = call.version;
        call.authorize(&route.case)?;
        if version < route.since {
            return Err(SenlinError::too_old(version));
        }
        let caller = call.principal().ok();
        let turn = if route.is_list { Some(ListTurn::wait(caller).await?) } else { None };
        let response = (route.serve)(call).await?.response(version);
        Ok(ListTurn::until_sent(turn, response))
    };
    answered.await.unwrap_or_else(|error: SenlinError| error.response())
}

async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let error = ApiError::wrong_method(format!("{method} is not allowed on {path}"));
    SenlinError::from(error).response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of types have a fixed length, and are not read from the database.
    const FIXED: [&str; 3] = ["/profile-types", "/profile-types/{type}/ops", "/policy-types"];

    #[test]
    fn every_route_that_reads_many_objects_waits_for_a_permit() {
        let lists: Vec<&str> = all().iter().filter(|route| route.is_list).map(|route| route.path).collect();
        assert!(lists.contains(&"/clusters/{id}/attrs/{path}"), "it shows all workers: {lists:?}");
        for route in all() {
            let is_of_one = route.path.ends_with('}') || route.path == "/build-info";
            if route.method == Method::GET && !is_of_one && !FIXED.contains(&route.path) {
                assert!(lists.contains(&route.path), "{} is a list", route.path);
            }
        }
        assert!(all().iter().all(|route| route.method == Method::GET || !route.is_list));
    }
}
