//! Errors of the scaler API: a code under `error`, a message, and further keys of some routes.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use muster_core::cluster::Cluster;
use muster_service::find::FindError;
use muster_service::{ErrorKind, Obstacle, ServiceError};
use serde_json::{Map, Value};

use crate::auth::IDENTITY_UNAVAILABLE;
use crate::error::{ApiError, ErrorMessage};
use crate::rest;

/// The seconds after which clients may retry a request that failed because a service was unavailable.
const RETRY_AFTER: &str = "5";

/// A refused request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScalerError {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) message: String,
    /// Further keys of the body.
    more: Map<String, Value>,
}

impl ScalerError {
    pub(super) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), more: Map::new() }
    }

    pub(super) fn bad(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::bad("bad_request", message)
    }

    pub(super) fn conflict(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error, message)
    }

    pub(super) fn missing(name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("Cluster {name} not found"))
    }

    /// Adds keys to the body.
    pub(super) fn with(mut self, more: Map<String, Value>) -> Self {
        self.more = more;
        self
    }

    /// Converts the error of a search for a cluster; `verb` names the refused operation in the message.
    pub(super) fn not_found(error: FindError, name: &str, verb: &str) -> Self {
        match error {
            FindError::Missing | FindError::OtherCluster(_) => Self::missing(name),
            FindError::Ambiguous(found) => {
                let of = |cluster: &Cluster| format!("{} ({})", cluster.namespace, cluster.instance);
                let places: Vec<String> = found.iter().map(of).collect();
                let places = places.join(", ");
                let message = format!("Several clusters are named {name}, in the namespaces {places}");
                Self::conflict("ambiguous_name", message)
            }
            FindError::Service(error) if error.kind == ErrorKind::Forbidden => Self::new(
                StatusCode::FORBIDDEN,
                "unauthorized",
                format!("Not authorized to {verb} cluster {name}"),
            ),
            FindError::Service(error) => error.into(),
        }
    }

    pub(super) fn response(self) -> Response {
        let Self { status, error, message, more } = self;
        let mut body = more;
        body.insert("error".to_owned(), error.into());
        body.insert("message".to_owned(), message.clone().into());
        let mut response = answer(status, &Value::Object(body));
        if status == StatusCode::BAD_GATEWAY || status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response.extensions_mut().insert(ErrorMessage(message));
        response
    }
}

/// Builds a response of this API: JSON with sorted keys and a final line break, not to be cached.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response {
    answer_json(status, &body.to_string())
}

/// Builds a response from a body that is JSON text already.
pub(super) fn answer_json(status: StatusCode, body: &str) -> Response {
    let mut response = rest::json(status, format!("{body}\n"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl From<ServiceError> for ScalerError {
    fn from(mut error: ServiceError) -> Self {
        // Remove the kind of the action from the message: clients of this API do not know actions.
        if error.code.as_deref() == Some("ActionFailed")
            && let Some(place) = error.message.find(": ")
        {
            error.message.drain(..place + 2);
        }
        let provider = match &error.obstacle {
            Some(Obstacle::Provider(reason)) => reason.as_str(),
            _ => "",
        };
        match (provider, error.kind) {
            ("Rejected" | "Invalid" | "TooLarge", _) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "rejected_by_operator", error.message)
            }
            ("NotFound", _) => Self::new(StatusCode::NOT_FOUND, "not_found", error.message),
            ("QuotaExceeded", _) => Self::conflict("conflict", error.message),
            ("Forbidden", _) => Self::internal("Muster lacks a right in Kubernetes; its log says which"),
            // The operator or the state of the cluster does not allow the request.
            (_, ErrorKind::Impossible | ErrorKind::Conflict | ErrorKind::TimedOut) => {
                Self::conflict("conflict", error.message)
            }
            _ => ApiError::from(error).into(),
        }
    }
}

impl ScalerError {
    fn internal(message: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }
}

impl From<ApiError> for ScalerError {
    fn from(error: ApiError) -> Self {
        let ApiError { code, message, status, .. } = error;
        if code == IDENTITY_UNAVAILABLE {
            return Self::new(StatusCode::BAD_GATEWAY, "identity_unavailable", message);
        }
        let error = match status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                "bad_request"
            }
            StatusCode::UNAUTHORIZED => "unauthenticated",
            StatusCode::FORBIDDEN => "unauthorized",
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
            StatusCode::REQUEST_TIMEOUT => "request_timeout",
            StatusCode::CONFLICT | StatusCode::GATEWAY_TIMEOUT => "conflict",
            StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
            StatusCode::SERVICE_UNAVAILABLE => "unavailable",
            _ => "internal_error",
        };
        let status = match error {
            "conflict" => StatusCode::CONFLICT,
            "bad_request" => StatusCode::BAD_REQUEST,
            _ => status,
        };
        Self::new(status, error, message)
    }
}
