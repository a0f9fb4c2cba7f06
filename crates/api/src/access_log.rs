//! The access log: every request gets an id, a span with that id, a line in the log if it is refused, and a count
//! in the metrics.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use muster_core::principal::Principal;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tonic::{Code, Status};
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::error::{ERROR_HEADER, ErrorMessage};
use crate::{access, rest};

#[cfg(test)]
mod tests;

/// The header and metadata that carry a request's id, in and out.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that a caller may give.
const LONGEST_ID: usize = 128;

/// The longest path that is logged.
const LONGEST_PATH: usize = 256;

/// The listener that received a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Rest,
    Grpc,
}

/// The metrics of requests. Handles are cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    answered: Family<Answered, Counter>,
    durations: Family<RouteLabels, Histogram>,
}

/// The labels of the counter. Callers cannot create label values, so the number of time series stays bounded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: String,
    status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

impl Requests {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let requests = Self {
            answered: Family::default(),
            // From a millisecond to four minutes: mutations may wait for their action.
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 10))),
        };
        let help = "Requests that were answered, by method, route and status (of gRPC: the name of its code)";
        registry.register("muster_requests", help, requests.answered.clone());
        let help = "Duration of requests until the response begins, by method and route";
        let durations = requests.durations.clone();
        registry.register_with_unit("muster_request_duration", help, Unit::Seconds, durations);
        requests
    }

    /// Wraps finished routes in the access log, outside all other layers. Each API first marks the requests that belong
    /// to it. One layer does both, since each layer clones the service inside it for every request.
    pub(crate) fn around(&self, routes: Router, port: Port, marks: &'static [Mark]) -> Router {
        routes.layer(from_fn_with_state((self.clone(), port, marks), follow))
    }

    fn count(&self, route: RouteLabels, status: String, took: Duration) {
        self.durations.get_or_create(&route).observe(took.as_secs_f64());
        let RouteLabels { method, route } = route;
        self.answered.get_or_create(&Answered { method, route, status }).inc();
    }
}

/// Records the caller in the span of the request.
pub(crate) fn record_caller(principal: &Principal) {
    Span::current()
        .record("by", tracing::field::display(format_args!("{}/{}", principal.scheme, principal.id)));
}

/// Sets the extensions that inner layers need of an API, if the request belongs to that API.
pub(crate) type Mark = fn(&mut Request);

/// An extension of requests to an API whose responses repeat the request id in another header.
#[derive(Debug, Clone)]
pub(crate) struct RequestIdAlias {
    /// The header.
    pub(crate) header: HeaderName,
    /// The text before the id.
    pub(crate) prefix: &'static str,
}

/// An extension of requests whose path contains a secret: the path without the secret, for the log.
#[derive(Debug, Clone)]
pub(crate) struct LoggedPath(pub(crate) String);

async fn follow(
    State((requests, port, marks)): State<(Requests, Port, &'static [Mark])>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    for mark in marks {
        mark(&mut request);
    }
    let alias = request.extensions_mut().remove::<RequestIdAlias>();
    let id = id_of(request.headers());
    let route = RouteLabels { method: method_of(request.method()), route: route_of(&request, port) };
    let path = logged_path(&request);
    let by = tracing::field::Empty;
    // The span has the highest level, so that no log filter removes the request id from the lines inside.
    let span = tracing::error_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        method = route.method,
        path,
        by
    );
    request.headers_mut().insert(REQUEST_ID, id.clone());
    async move {
        let mut response = next.run(request).await;
        let outcome = RequestOutcome::of(&response, port);
        let took = begun.elapsed();
        outcome.log(took);
        requests.count(route, outcome.status, took);
        if let Some(RequestIdAlias { header, prefix }) = alias
            && let Ok(id) = HeaderValue::from_bytes(&[prefix.as_bytes(), id.as_bytes()].concat())
        {
            response.headers_mut().insert(header, id);
        }
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }
    .instrument(span)
    .await
}

/// Returns the path as it is logged: without secrets, and shortened.
fn logged_path(request: &Request) -> String {
    let without_secrets = request.extensions().get::<LoggedPath>();
    let path = without_secrets.map_or_else(|| request.uri().path(), |path| &path.0);
    path.chars().take(LONGEST_PATH).collect()
}

/// Returns the caller's id for the request if it is safe to log, else a new id.
fn id_of(headers: &HeaderMap) -> HeaderValue {
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    let sane =
        |value: &&HeaderValue| (1..=LONGEST_ID).contains(&value.len()) && value.as_bytes().iter().all(good);
    let given = headers.get(REQUEST_ID).filter(sane).cloned();
    given.unwrap_or_else(|| {
        HeaderValue::from_str(&Uuid::now_v7().to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    })
}

fn method_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

/// Returns the template of the path, so that the label has only as many values as there are routes.
fn route_of(request: &Request, port: Port) -> String {
    static TEMPLATES: LazyLock<rest::PathTemplates> = LazyLock::new(rest::templates);
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = match (port, matched) {
        (Port::Grpc, matched) => {
            access::of(request.uri().path()).map(|case| case.operation).or(matched).unwrap_or("none")
        }
        (Port::Rest, Some(matched)) => TEMPLATES.get(matched).copied().unwrap_or(matched),
        (Port::Rest, None) => "none",
    };
    route.to_owned()
}

/// The result of a request.
struct RequestOutcome {
    status: String,
    refusal: Option<Refusal>,
}

/// The error of a refused request: its code, its message, and whether the server caused it.
struct Refusal {
    code: String,
    server_error: bool,
    message: String,
}

impl RequestOutcome {
    fn of(response: &Response, port: Port) -> Self {
        let header = response.headers().get(ERROR_HEADER).and_then(|value| value.to_str().ok());
        if port == Port::Grpc && response.status().is_success() {
            // The status of a stream follows its last message, so a stream that has started counts as a success.
            let status = Status::from_header_map(response.headers()).unwrap_or_else(|| Status::ok(""));
            let (code, name) = (status.code(), format!("{:?}", status.code()));
            let refusal = (code != Code::Ok).then(|| Refusal {
                code: header.unwrap_or(&name).to_owned(),
                server_error: matches!(
                    code,
                    Code::Internal | Code::Unavailable | Code::Unknown | Code::DataLoss
                ),
                message: status.message().to_owned(),
            });
            return Self { status: name, refusal };
        }
        let status = response.status();
        let message = response.extensions().get::<ErrorMessage>().map(|message| message.0.clone());
        let refused = status.is_client_error() || status.is_server_error();
        let refusal = refused.then(|| Refusal {
            code: header.unwrap_or_default().to_owned(),
            server_error: matches!(status.as_u16(), 500 | 503),
            message: message.unwrap_or_default(),
        });
        Self { status: status.as_u16().to_string(), refusal }
    }

    fn log(&self, took: Duration) {
        let (status, ms) = (&self.status, took.as_millis());
        match &self.refusal {
            None => tracing::debug!(status, ms, "answered"),
            Some(Refusal { code, server_error: true, message }) => {
                tracing::warn!(status, code, reason = message, ms, "refused");
            }
            // The message of a client error may contain the client's secrets, so only its code is logged.
            Some(Refusal { code, .. }) => tracing::info!(status, code, ms, "refused"),
        }
    }
}
