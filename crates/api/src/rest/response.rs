//! Renders responses and errors of the core API.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use http_body::Frame;
use muster_proto::rest::{Answer, Content};
use muster_proto::rpc::ERROR_INFO;
use serde_json::{Value, json};
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::error::{ApiError, DOMAIN, ErrorMessage, ErrorRenderer};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const EVENTS: &str = "text/event-stream";
const GRPC: &str = "application/grpc";

/// The type of server-sent events that carry an error.
const ERROR_EVENT: &str = "error";

/// The prefix of paths whose clients do not accept additional keys in errors.
const STRICT: &str = "/apis/v1";

type Messages = BoxStream<'static, Result<Vec<u8>, Status>>;

/// Renders a result; a stream as server-sent events or as JSON lines, depending on the `Accept` header.
pub(super) fn render(path: &str, headers: &HeaderMap, answer: Answer) -> Response {
    let mut response = match answer.content {
        Content::One(body) => json(StatusCode::OK, body),
        Content::Stream(messages) if accepts_events(headers) => {
            let events = Sse::new(events(path.to_owned(), messages));
            events.keep_alive(KeepAlive::default()).into_response()
        }
        Content::Stream(messages) => typed(LINES, Body::from_stream(lines(path.to_owned(), messages))),
    };
    copy_metadata(answer.metadata, response.headers_mut());
    response
}

/// Returns true for the headers of a gRPC request.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(GRPC.as_bytes()))
}

/// The parts of a request that are needed to render an error after the request was consumed.
#[derive(Clone)]
pub struct ErrorContext {
    path: String,
    is_grpc: bool,
    renderer: Option<ErrorRenderer>,
}

impl ErrorContext {
    /// Returns the context of a request.
    pub fn of<B>(request: &http::Request<B>) -> Self {
        Self::new(request.uri(), request.headers(), request.extensions())
    }

    /// Returns the context of a request that was split from its body.
    pub fn of_parts(parts: &Parts) -> Self {
        Self::new(&parts.uri, &parts.headers, &parts.extensions)
    }

    fn new(uri: &Uri, headers: &HeaderMap, extensions: &Extensions) -> Self {
        Self { path: uri.path().to_owned(), is_grpc: is_grpc(headers), renderer: extensions.get().copied() }
    }

    /// Renders an error: as gRPC for gRPC clients, else in the format of the API that the request belongs to.
    pub fn render(&self, status: &Status) -> Response {
        if self.is_grpc {
            return status.clone().into_http();
        }
        let error = ApiError::from(status);
        if let Some(ErrorRenderer(render)) = self.renderer {
            return render(error);
        }
        let mut response = json(error.status, refusal(&self.path, &error).to_string());
        response.extensions_mut().insert(ErrorMessage(error.message));
        copy_metadata(status.metadata().clone(), response.headers_mut());
        response
    }

    /// Returns the last frame of a streamed response that ends with an error, by its headers; none if its format has no
    /// place for an error.
    pub(crate) fn last_frame(&self, headers: &HeaderMap, status: &Status) -> Option<Frame<Bytes>> {
        if is_grpc(headers) {
            let mut trailers = HeaderMap::new();
            status.add_header(&mut trailers).ok()?;
            return Some(Frame::trailers(trailers));
        }
        let content_type = headers.get(header::CONTENT_TYPE)?;
        if content_type == LINES {
            return Some(Frame::data(error_line(&self.path, status).into()));
        }
        let event = || format!("event: {ERROR_EVENT}\ndata: {}\n\n", status_json(&self.path, status));
        (content_type == EVENTS).then(|| Frame::data(event().into()))
    }
}

/// Returns true if clients of this path accept no additional keys in errors.
pub(super) fn is_strict(path: &str) -> bool {
    path.strip_prefix(STRICT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn refusal(path: &str, error: &ApiError) -> Value {
    let (code, message) = (error.grpc_code as i32, &error.message);
    if is_strict(path) {
        return json!({"code": code, "message": message});
    }
    let details = json!([{"@type": ERROR_INFO, "reason": error.code, "domain": DOMAIN}]);
    json!({"code": code, "message": message, "error": message, "details": details})
}

fn status_json(path: &str, status: &Status) -> Value {
    refusal(path, &ApiError::from(status))
}

fn error_line(path: &str, status: &Status) -> Vec<u8> {
    let mut line = json!({"error": status_json(path, status)}).to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Builds a response with a JSON body.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = typed(JSON, body.into());
    *response.status_mut() = status;
    response
}

fn typed(content_type: HeaderValue, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains(EVENTS))
}

/// Renders one JSON object per line; an error becomes the last line.
fn lines(path: String, messages: Messages) -> impl Stream<Item = Result<Vec<u8>, Infallible>> {
    messages.map(move |message| {
        Ok(match message {
            Ok(mut line) => {
                line.push(b'\n');
                line
            }
            Err(status) => error_line(&path, &status),
        })
    })
}

fn events(path: String, messages: Messages) -> impl Stream<Item = Result<Event, Infallible>> {
    messages.map(move |message| {
        Ok(match message {
            Ok(json) => Event::default().data(String::from_utf8_lossy(&json)),
            Err(status) => Event::default().event(ERROR_EVENT).data(status_json(&path, &status).to_string()),
        })
    })
}

fn copy_metadata(metadata: MetadataMap, headers: &mut HeaderMap) {
    let taken = |name: &HeaderName| *name == header::CONTENT_TYPE || name.as_str().starts_with("grpc-");
    for (name, value) in metadata.into_headers() {
        if let Some(name) = name.filter(|name| !taken(name)) {
            headers.insert(name, value);
        }
    }
}
