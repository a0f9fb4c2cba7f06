//! Host and Origin checks, since pages in a browser can reach even a listener on loopback.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Uri, header, uri::Authority};

use crate::error::ApiError;
use crate::rest::ErrorContext;

#[cfg(test)]
mod tests;

/// The host names of loopback.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The paths of probes, which may use any host name and need no authentication. They reveal nothing about tenants.
const PROBES: [&str; 4] =
    ["/healthz", "/readyz", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];

/// Returns true if a path belongs to a probe, which every caller may use.
pub fn is_probe(path: &str) -> bool {
    PROBES.contains(&path)
}

/// The names that clients may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuardSettings {
    /// True if the listener is on loopback.
    pub loopback: bool,
    /// The allowed names on other listeners, with or without a port; an empty list allows all.
    pub allowed_hosts: Vec<String>,
}

/// Middleware for HTTP and gRPC that refuses requests with another host name, or from a page of another origin.
pub async fn guard(State(settings): State<Arc<GuardSettings>>, request: Request, next: Next) -> Response {
    if is_probe(request.uri().path()) {
        return next.run(request).await;
    }
    match check(&settings, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => ErrorContext::of(&request).render(&error.into()),
    }
}

/// Checks the Host and Origin of a request.
pub fn check(settings: &GuardSettings, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = host_of(uri, headers);
    if !allows_host(settings, host.as_ref()) {
        let given = host.map_or_else(|| "missing".to_owned(), |host| format!("'{host}'"));
        let known = if settings.loopback { LOOPBACK.join(", ") } else { settings.allowed_hosts.join(", ") };
        return Err(
            ApiError::forbidden(format!("the Host is {given}: use one of {known}")).code("HostNotAllowed")
        );
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    if is_same_origin(settings, origin.to_str().unwrap_or_default(), host.as_ref()) {
        return Ok(());
    }
    let origin = String::from_utf8_lossy(origin.as_bytes());
    Err(ApiError::forbidden(format!(
        "pages of '{origin}' may not call this server: add the host to allowed_hosts if it is yours"
    ))
    .code("OriginNotAllowed"))
}

fn host_of(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    // HTTP/2 has the host in the URI.
    let given = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    uri.authority().cloned().or_else(|| given.and_then(|host| host.parse().ok()))
}

fn allows_host(settings: &GuardSettings, host: Option<&Authority>) -> bool {
    if settings.loopback {
        return host.is_some_and(|host| is_in(host, LOOPBACK));
    }
    settings.allowed_hosts.is_empty()
        || host.is_some_and(|host| is_in(host, settings.allowed_hosts.iter().map(String::as_str)))
}

/// Returns true if an authority is one of these names; a name without a port allows any port.
fn is_in<'a>(host: &Authority, names: impl IntoIterator<Item = &'a str>) -> bool {
    // Names are compared without case and trailing dot. An authority with user information is refused.
    let (whole, name) = (host.as_str(), host.host().trim_end_matches('.'));
    !whole.contains('@')
        && names
            .into_iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(name) || allowed.eq_ignore_ascii_case(whole))
}

fn is_same_origin(settings: &GuardSettings, origin: &str, host: Option<&Authority>) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let Ok(page) = authority.parse::<Authority>() else { return false };
    if !settings.loopback && is_in(&page, settings.allowed_hosts.iter().map(String::as_str)) {
        return true;
    }
    let default = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    host.is_some_and(|host| page.host().eq_ignore_ascii_case(host.host()) && port(&page) == port(host))
}
