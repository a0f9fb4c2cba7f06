//! Every request has an id, a span with it around all that is done for it, a word in the log if it is refused, and
//! is counted.

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

use crate::error::ERROR_HEADER;
use crate::{access, clustering, rest};

#[cfg(test)]
mod tests;

/// The header and metadata that carry a request's id, in and out.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The same, under the name that clients of OpenStack services look for.
const OPENSTACK_REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// The longest id that is taken over from a caller.
const LONGEST_ID: usize = 128;

/// The longest path that is logged.
const LONGEST_PATH: usize = 256;

/// Which port a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Rest,
    Grpc,
}

/// What is counted of requests. Handles are cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    answered: Family<Answered, Counter>,
    durations: Family<Route, Histogram>,
}

/// Each label has a few values, whatever callers send.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: String,
    status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: String,
}

impl Requests {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let requests = Self {
            answered: Family::default(),
            // From a millisecond to four minutes: mutations may wait for what they ask for.
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 10))),
        };
        let help = "Requests that were answered, by method, route and status (of gRPC: the name of its code)";
        registry.register("muster_requests", help, requests.answered.clone());
        let help = "How long requests took until their answer began, by method and route";
        let durations = requests.durations.clone();
        registry.register_with_unit("muster_request_duration", help, Unit::Seconds, durations);
        requests
    }

    /// Puts all of this around finished routes.
    pub(crate) fn around(&self, routes: Router, port: Port) -> Router {
        routes.layer(from_fn_with_state((self.clone(), port), follow))
    }

    fn count(&self, route: Route, status: String, took: Duration) {
        self.durations.get_or_create(&route).observe(took.as_secs_f64());
        let Route { method, route } = route;
        self.answered.get_or_create(&Answered { method, route, status }).inc();
    }
}

/// Says in the span of a request who is behind it.
pub(crate) fn known(principal: &Principal) {
    Span::current()
        .record("by", tracing::field::display(format_args!("{}/{}", principal.scheme, principal.id)));
}

async fn follow(
    State((requests, port)): State<(Requests, Port)>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let id = id_of(request.headers());
    let openstack = clustering::is_here(request.uri().path());
    let route = Route { method: method_of(request.method()), route: route_of(&request, port) };
    let path: String = request.uri().path().chars().take(LONGEST_PATH).collect();
    let by = tracing::field::Empty;
    // At the highest level, so that no filter takes the id from what is told inside.
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
        let outcome = Outcome::of(&response, port);
        let took = begun.elapsed();
        outcome.tell(took);
        requests.count(route, outcome.status, took);
        if openstack {
            response.headers_mut().insert(OPENSTACK_REQUEST_ID, as_openstack_writes(&id));
        }
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }
    .instrument(span)
    .await
}

/// The caller's own id for the request if it can stand in a log as it is, else a new one.
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

/// Clients of OpenStack services know ids of requests by how they begin.
fn as_openstack_writes(id: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(&[b"req-", id.as_bytes()].concat()).unwrap_or_else(|_| id.clone())
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

/// The template of a path, of which there are as many as routes.
fn route_of(request: &Request, port: Port) -> String {
    static TEMPLATES: LazyLock<rest::Templates> = LazyLock::new(rest::templates);
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

/// What came of a request.
struct Outcome {
    status: String,
    refusal: Option<Refusal>,
}

/// The word of a refusal, whether it is the server's fault, and then its sentence.
struct Refusal {
    word: String,
    ours: bool,
    sentence: String,
}

/// The sentence of a refusal, beside the body that has it too; for the log.
#[derive(Debug, Clone)]
pub(crate) struct Sentence(pub(crate) String);

impl Outcome {
    fn of(response: &Response, port: Port) -> Self {
        let header = response.headers().get(ERROR_HEADER).and_then(|value| value.to_str().ok());
        if port == Port::Grpc && response.status().is_success() {
            // One that has begun well says how it ended after its last message.
            let status = Status::from_header_map(response.headers()).unwrap_or_else(|| Status::ok(""));
            let (code, word) = (status.code(), format!("{:?}", status.code()));
            let refusal = (code != Code::Ok).then(|| Refusal {
                word: header.unwrap_or(&word).to_owned(),
                ours: matches!(code, Code::Internal | Code::Unavailable | Code::Unknown | Code::DataLoss),
                sentence: status.message().to_owned(),
            });
            return Self { status: word, refusal };
        }
        let status = response.status();
        let sentence = response.extensions().get::<Sentence>().map(|sentence| sentence.0.clone());
        let refused = status.is_client_error() || status.is_server_error();
        let refusal = refused.then(|| Refusal {
            word: header.unwrap_or_default().to_owned(),
            ours: matches!(status.as_u16(), 500 | 503),
            sentence: sentence.unwrap_or_default(),
        });
        Self { status: status.as_u16().to_string(), refusal }
    }

    fn tell(&self, took: Duration) {
        let (status, ms) = (&self.status, took.as_millis());
        match &self.refusal {
            None => tracing::debug!(status, ms, "answered"),
            Some(Refusal { word, ours: true, sentence }) => {
                tracing::warn!(status, code = word, reason = sentence, ms, "refused");
            }
            // What callers got wrong may hold what is theirs alone: the word is enough.
            Some(Refusal { word, .. }) => tracing::info!(status, code = word, ms, "refused"),
        }
    }
}
