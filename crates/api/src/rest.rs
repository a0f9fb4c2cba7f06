//! The core API over HTTP, with the routes of the `.proto` files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter};
use http::request::Parts;
use muster_core::principal::Principal;
use muster_core::string_enum::alternatives;
use muster_proto::bind;
use muster_proto::rest::{Answer, Endpoint, METHODS, RestCall, Rule};
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::access;
use crate::error::ApiError;
use crate::list_turn::ListTurn;

mod body;
mod response;
#[cfg(test)]
mod tests;

pub use body::BODY_LIMIT;
pub(crate) use body::check_type;
pub use response::ErrorContext;
pub(crate) use response::{is_grpc, json};

/// The custom verb at the end of the path of a watch.
const WATCH: &str = ":watch";

/// One HTTP route of a method.
#[derive(Debug, Clone)]
struct RestRoute {
    endpoint: Endpoint,
    rule: &'static Rule,
    /// The route that serves a list with `?watch=true`.
    watch: Option<Box<RestRoute>>,
}

/// Returns the routes of these endpoints, without middleware and without a fallback for unknown paths.
pub fn routes(endpoints: &[Endpoint]) -> Router {
    let all: Vec<RestRoute> = endpoints
        .iter()
        .flat_map(|endpoint| {
            let rules = endpoint.method.rules.iter();
            rules.map(|rule| RestRoute { endpoint: endpoint.clone(), rule, watch: None })
        })
        .collect();
    let watches: BTreeMap<&str, &RestRoute> =
        all.iter().filter_map(|route| Some((route.rule.path.strip_suffix(WATCH)?, route))).collect();
    let mut by_path: BTreeMap<String, MethodRouter> = BTreeMap::new();
    for (route, path) in all.iter().flat_map(|route| paths(route.rule).map(move |path| (route, path))) {
        let Ok(filter) = MethodFilter::try_from(route.rule.verb.clone()) else { continue };
        let watch = watches.get(route.rule.path).filter(|_| filter == MethodFilter::GET);
        let route =
            Arc::new(RestRoute { watch: watch.map(|watch| Box::new((*watch).clone())), ..route.clone() });
        let methods = by_path.entry(path).or_default();
        *methods = std::mem::take(methods).on(filter, move |path, request| {
            let route = Arc::clone(&route);
            async move { serve(&route, path, request).await }
        });
    }
    by_path
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| router.route(&path, methods))
        .method_not_allowed_fallback(wrong_method)
}

/// The declared paths of all rules, by the paths in the router.
pub(crate) type PathTemplates = BTreeMap<String, &'static str>;

pub(crate) fn templates() -> PathTemplates {
    let rules = METHODS.iter().flat_map(|method| method.rules);
    rules.flat_map(|rule| paths(rule).map(|path| (path, rule.path))).collect()
}

/// Returns the router's paths of a rule. Below `/apis/v1` a path may end before its last parameter, because clients
/// expect an error about the empty name there.
fn paths(rule: &Rule) -> impl Iterator<Item = String> + use<> {
    let path = positional(rule);
    let without_name = path
        .rsplit_once('/')
        .filter(|(_, last)| response::is_strict(rule.path) && last.starts_with('{'))
        .map(|(parent, _)| format!("{parent}/"));
    std::iter::once(path).chain(without_name)
}

/// Returns the path with numbered parameters: the router requires the same name at the same position of all paths.
fn positional(rule: &Rule) -> String {
    let mut path = rule.path.to_owned();
    for (place, name) in rule.parameters().enumerate() {
        path = path.replacen(&format!("{{{name}}}"), &format!("{{{place}}}"), 1);
    }
    path
}

async fn serve(
    route: &RestRoute,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let given = parts.uri.query().unwrap_or_default();
    let (route, query) = match &route.watch {
        Some(watch) if wants_watch(given) => (&**watch, without_watch(given)),
        Some(_) => (route, without_watch(given)),
        None => (route, given.to_owned()),
    };
    let context = ErrorContext::of_parts(&parts);
    let (uri, headers) = (parts.uri.clone(), parts.headers.clone());
    let answered = async {
        let caller = parts.extensions.get::<Principal>();
        let turn = if route.endpoint.method.is_list { Some(ListTurn::wait(caller).await?) } else { None };
        Ok((turn, call(route, path, &query, parts, body).await?))
    };
    match answered.await {
        Ok((turn, answer)) => ListTurn::until_sent(turn, response::render(uri.path(), &headers, answer)),
        Err(status) => context.render(&status),
    }
}

fn wants_watch(query: &str) -> bool {
    query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"))
}

/// Removes `watch` from a query: it selects the route, and is not a field of the request.
fn without_watch(query: &str) -> String {
    let parts: Vec<&str> = query.split('&').filter(|part| !part.starts_with("watch=")).collect();
    parts.join("&")
}

async fn call(
    route: &RestRoute,
    path: Result<RawPathParams, RawPathParamsRejection>,
    query: &str,
    mut parts: Parts,
    body: axum::body::Body,
) -> Result<Answer, Status> {
    access::authorize_method(route.endpoint.method.grpc_path, &mut parts.extensions)?;
    let path = path.map_err(|_| {
        ApiError::invalid("the path has bytes that are not UTF-8: write names in UTF-8, escaped as %C3%A4")
    })?;
    // Values and names have the same order. The last value may be absent: see `paths`.
    let values = path.iter().map(|(_, value)| value.to_owned()).chain(std::iter::once(String::new()));
    let path: Vec<(String, String)> = route.rule.parameters().map(str::to_owned).zip(values).collect();
    if has_empty_parent(route.rule, &path) {
        return Err(no_such_path(parts.uri.path()).into());
    }
    let body = body::read(route.rule.body, &parts.headers, body).await?;
    let request = bind::request(route.endpoint.method, route.rule, &path, query, body)
        .map_err(|error| ApiError::invalid(error.to_string()))?;
    let metadata = MetadataMap::from_headers(parts.headers);
    route.endpoint.call(RestCall { metadata, extensions: parts.extensions, request }).await
}

/// Returns true if a path of `/apis/v1` has an empty value before the last one: the KubeRay API server returns 404.
fn has_empty_parent(rule: &Rule, path: &[(String, String)]) -> bool {
    let parents = if rule.path.ends_with('}') { &path[..path.len().saturating_sub(1)] } else { path };
    response::is_strict(rule.path) && parents.iter().any(|(_, value)| value.is_empty())
}

async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    // The KubeRay API server returns 404 for a path with an empty segment, whatever the method.
    if response::is_strict(path) && path.contains("//") {
        return unknown_path(request).await;
    }
    let message = format!("{method} is not allowed on {path}: use {}", allowed_methods(&request));
    // Clients expect 501, the status of the KubeRay API server and of every gRPC gateway.
    let error = ApiError::unimplemented(message).code("MethodNotAllowed");
    ErrorContext::of(&request).render(&error.into())
}

/// Lists the methods of the matched path, as the `Allow` header of the response does.
fn allowed_methods(request: &Request) -> String {
    let matched = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let rules = METHODS.iter().flat_map(|method| method.rules);
    let rules = rules.filter(|rule| paths(rule).any(|path| path == matched));
    let verbs: BTreeSet<&str> = rules.map(|rule| rule.verb.as_str()).collect();
    alternatives(&verbs.into_iter().collect::<Vec<_>>())
}

/// Responds to a path that no API has.
pub async fn unknown_path(request: Request) -> Response {
    ErrorContext::of(&request).render(&no_such_path(request.uri().path()).into())
}

fn no_such_path(path: &str) -> ApiError {
    ApiError::not_found(format!("no resource at {path}: see /docs")).code("PathNotFound")
}
