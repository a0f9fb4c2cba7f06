//! Errors of the clustering API, with the messages and classes that existing clients compare.

use axum::response::Response;
use http::{HeaderValue, StatusCode};
use muster_service::find::IdentifyError;
use muster_service::membership::MembershipError;
use muster_service::sizes::SizeError;
use muster_service::{Obstacle, ServiceError};
use serde_json::{Value, json};

use crate::error::ErrorMessage;
use crate::error::{ApiError, ERROR_HEADER};
use crate::rest;

/// The generic message for a malformed body.
pub(super) const MALFORMED: &str =
    "The server could not comply with the request since it is either malformed or otherwise incorrect.";

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SenlinError {
    pub(super) status: StatusCode,
    /// The class of the error in Senlin, which clients compare.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl SenlinError {
    const fn new(status: StatusCode, kind: &'static str, message: String) -> Self {
        Self { status, kind, message }
    }

    /// The error for a malformed request; the message is unchanged.
    pub(super) fn form(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "HTTPBadRequest", message.into())
    }

    /// The error for a well-formed request that cannot be executed; the message ends with one full stop.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = format!("{}.", message.trim_end_matches('.'));
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The error for an invalid specification; the message is unchanged.
    pub(super) fn spec(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidSpec", message.into())
    }

    /// The error for a body that is too large.
    pub(super) fn too_large(size: usize, limit: usize) -> Self {
        let message = format!(
            "Request limit exceeded: JSON body size ({size} bytes) exceeds maximum allowed size ({limit} bytes)."
        );
        Self::new(StatusCode::BAD_REQUEST, "RequestLimitExceeded", message)
    }

    /// The error for a method that was added in a later version than the client's.
    pub(super) fn too_old(version: impl std::fmt::Display) -> Self {
        let message = format!("API version '{version}' is not supported on this method.");
        Self::new(StatusCode::BAD_REQUEST, "MethodVersionNotFound", message)
    }

    /// The error for a version that is not supported.
    pub(super) fn no_such_version(message: String) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "InvalidGlobalAPIVersion", message)
    }

    /// The error for a name that several objects have.
    pub(super) fn ambiguous(given: &str) -> Self {
        let message =
            format!("Multiple results found matching the query criteria '{given}'. Please be more specific.");
        Self::new(StatusCode::BAD_REQUEST, "MultipleChoices", message)
    }

    /// The error for an object in the path that does not exist.
    pub(super) fn missing(what: &str, given: &str) -> Self {
        let message = format!("The {what} '{given}' could not be found.");
        Self::new(StatusCode::NOT_FOUND, "ResourceNotFound", message)
    }

    /// The error for a policy in the path that is not bound to the cluster.
    pub(super) fn not_attached(policy: &str, cluster: &str) -> Self {
        let message =
            format!("The policy '{policy}' is not found attached to the specified cluster '{cluster}'.");
        Self::new(StatusCode::NOT_FOUND, "PolicyBindingNotFound", message)
    }

    /// The error for an object in the body that does not exist.
    pub(super) fn unknown(what: &str, given: &str) -> Self {
        Self::bad(format!("The specified {what} '{given}' could not be found."))
    }

    /// The error for a caller that lacks the permission.
    pub(super) fn forbidden() -> Self {
        let message = "You are not authorized to complete this operation.".to_owned();
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// The error for a request that the present state does not allow.
    pub(super) fn conflict(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, message.into())
    }

    /// Converts to an HTTP response.
    pub(super) fn response(&self) -> Response {
        let mut response = rest::json(self.status, self.body().to_string());
        response.headers_mut().insert(ERROR_HEADER, HeaderValue::from_static(self.kind));
        response.extensions_mut().insert(ErrorMessage(self.message.clone()));
        response
    }

    fn body(&self) -> Value {
        let code = self.status.as_u16();
        json!({
            "code": code,
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "explanation": explanation(self.status),
            "error": {"code": code, "message": self.message, "type": self.kind},
        })
    }
}

const fn explanation(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => MALFORMED,
        StatusCode::UNAUTHORIZED => {
            "This server could not verify that you are authorized to access the document you requested."
        }
        StatusCode::FORBIDDEN => "Access was denied to this resource.",
        StatusCode::NOT_FOUND => "The resource could not be found.",
        StatusCode::METHOD_NOT_ALLOWED => "The method is not allowed for this resource.",
        StatusCode::NOT_ACCEPTABLE => {
            "The resource could not be generated that was acceptable to your browser."
        }
        StatusCode::REQUEST_TIMEOUT => "The server timed out while waiting for the request.",
        StatusCode::CONFLICT => "There was a conflict when trying to complete your request.",
        StatusCode::SERVICE_UNAVAILABLE => {
            "The server is currently unavailable. Please try again at a later time."
        }
        _ => "The server has either erred or is incapable of performing the requested operation.",
    }
}

/// Converts errors of the middleware that all APIs share.
impl From<ApiError> for SenlinError {
    fn from(error: ApiError) -> Self {
        let kind = match error.status {
            StatusCode::BAD_REQUEST => "BadRequest",
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::NOT_FOUND => "ResourceNotFound",
            StatusCode::CONFLICT => "ResourceInUse",
            StatusCode::REQUEST_TIMEOUT => "RequestTimeout",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => "MethodNotAllowed",
            _ => "InternalError",
        };
        // Existing clients do not handle 501.
        let status = match error.status {
            StatusCode::NOT_IMPLEMENTED => StatusCode::METHOD_NOT_ALLOWED,
            status => status,
        };
        Self::new(status, kind, error.message)
    }
}

impl From<ServiceError> for SenlinError {
    fn from(error: ServiceError) -> Self {
        match &error.obstacle {
            Some(Obstacle::Conflict(conflict)) if conflict.locked => {
                Self::conflict("ResourceIsLocked", conflict.to_string())
            }
            Some(Obstacle::Conflict(conflict)) => Self::conflict("ActionConflict", conflict.to_string()),
            Some(Obstacle::Cooldown) => Self::conflict("ActionCooldown", error.message),
            Some(Obstacle::ActionStatus(_) | Obstacle::Provider(_)) | None => ApiError::from(error).into(),
        }
    }
}

impl From<IdentifyError> for SenlinError {
    fn from(error: IdentifyError) -> Self {
        match error {
            IdentifyError::Ambiguous(given) => Self::ambiguous(&given),
            IdentifyError::Service(error) => error.into(),
        }
    }
}

impl From<SizeError> for SenlinError {
    fn from(error: SizeError) -> Self {
        match error {
            SizeError::Service(error) => error.into(),
            refused => Self::bad(refused.to_string()),
        }
    }
}

impl From<MembershipError> for SenlinError {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::Refused(why) => Self::bad(why),
            MembershipError::InUse(nodes) => {
                let nodes = muster_core::spec::listed(nodes.iter().map(String::as_str));
                let message = format!(
                    "nodes {nodes} are depended by other nodes, so can't be deleted or become orphan nodes"
                );
                Self::conflict("ResourceInUse", message)
            }
            MembershipError::Identify(error) => error.into(),
            MembershipError::Size(error) => error.into(),
            MembershipError::Service(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_request_ends_in_one_full_stop() {
        assert_eq!(SenlinError::bad("no").message, "no.");
        assert_eq!(SenlinError::bad("no..").message, "no.");
        assert_eq!(SenlinError::form("no").message, "no");
    }

    #[test]
    fn an_error_has_its_status_twice_and_its_class_once() {
        let body = SenlinError::missing("cluster", "x").body();
        assert_eq!(body["code"], 404);
        assert_eq!(body["title"], "Not Found");
        let error = json!({
            "code": 404,
            "message": "The cluster 'x' could not be found.",
            "type": "ResourceNotFound",
        });
        assert_eq!(body["error"], error);
    }
}
