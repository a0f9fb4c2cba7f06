//! The error of the core API and of the shared middleware: a stable code, a message, and statuses for HTTP and gRPC.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use muster_proto::rpc::{ERROR_INFO, ErrorInfo};
use muster_proto::wkt::Any;
use muster_service::{Denied, ErrorKind, ServiceError};
use prost::Message as _;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

#[cfg(test)]
mod tests;

/// The metadata and header that carry the code of an error.
pub const ERROR_HEADER: &str = "muster-error";

/// The metadata and header that carry the id of the action that a response is about.
pub const ACTION_HEADER: &str = "muster-action-id";

/// The domain of the codes in error details.
pub const DOMAIN: &str = "muster.dev";

/// Declares the constructors of [`ApiError`], each with its code and statuses.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $http:ident, $grpc:ident;)+) => {
        impl ApiError {
            $(
                $(#[$doc])*
                pub fn $name(message: impl Into<String>) -> Self {
                    Self::new($code, StatusCode::$http, Code::$grpc, message)
                }
            )+
        }
    };
}

refusals! {
    /// A value of the request is invalid.
    invalid = "InvalidArgument", BAD_REQUEST, InvalidArgument;
    /// The present state does not allow the request.
    impossible = "FailedPrecondition", BAD_REQUEST, FailedPrecondition;
    /// The caller has no valid credentials.
    unauthenticated = "Unauthenticated", UNAUTHORIZED, Unauthenticated;
    /// The caller may see the object, but lacks the permission for the request.
    forbidden = "Forbidden", FORBIDDEN, PermissionDenied;
    /// The caller's quota does not allow the request.
    quota = "QuotaExceeded", FORBIDDEN, PermissionDenied;
    /// The object does not exist, or the caller may not see it.
    not_found = "NotFound", NOT_FOUND, NotFound;
    /// An object with this name exists.
    exists = "AlreadyExists", CONFLICT, AlreadyExists;
    /// Another action is changing the object.
    conflict = "Conflict", CONFLICT, Aborted;
    /// A token refers to history that is no longer stored.
    expired = "PageTokenExpired", GONE, FailedPrecondition;
    /// The client did not send the body in time.
    late_body = "RequestTimeout", REQUEST_TIMEOUT, DeadlineExceeded;
    /// The body is larger than the server accepts.
    too_large = "BodyTooLarge", PAYLOAD_TOO_LARGE, InvalidArgument;
    /// The content type of the body is not JSON.
    not_json = "UnsupportedMediaType", UNSUPPORTED_MEDIA_TYPE, InvalidArgument;
    /// The request id was used before with another request.
    reused = "RequestIdReused", UNPROCESSABLE_ENTITY, InvalidArgument;
    /// The caller sends too many requests.
    too_many = "TooManyRequests", TOO_MANY_REQUESTS, ResourceExhausted;
    /// The path exists, but not with this HTTP method.
    wrong_method = "MethodNotAllowed", METHOD_NOT_ALLOWED, Unimplemented;
    /// The method does not exist.
    unimplemented = "Unimplemented", NOT_IMPLEMENTED, Unimplemented;
    /// A dependency of the server is unreachable at present.
    unavailable = "Unavailable", SERVICE_UNAVAILABLE, Unavailable;
    /// The request took longer than allowed.
    timed_out = "DeadlineExceeded", GATEWAY_TIMEOUT, DeadlineExceeded;
    /// A defect of Muster.
    internal = "Internal", INTERNAL_SERVER_ERROR, Internal;
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// A stable code, for programs.
    pub code: String,
    /// The value, the rule and the remedy, for people.
    pub message: String,
    /// The status over HTTP.
    pub status: StatusCode,
    /// The code over gRPC.
    pub grpc_code: Code,
    /// The action that continues in spite of the error, if any.
    pub action: Option<String>,
}

impl ApiError {
    /// Creates an error with its own code and statuses.
    pub fn new(
        code: impl Into<String>,
        status: StatusCode,
        grpc_code: Code,
        message: impl Into<String>,
    ) -> Self {
        Self { code: code.into(), message: message.into(), status, grpc_code, action: None }
    }

    /// Replaces the code by a more precise one.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// Adds the id of the action that continues in spite of the error.
    #[must_use]
    pub fn about(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    fn details(&self) -> Vec<u8> {
        let info =
            ErrorInfo { reason: self.code.clone(), domain: DOMAIN.to_owned(), metadata: BTreeMap::new() };
        let any = Any { type_url: ERROR_INFO.to_owned(), value: info.encode_to_vec() };
        muster_proto::rpc::Status {
            code: self.grpc_code as i32,
            message: self.message.clone(),
            details: vec![any],
        }
        .encode_to_vec()
    }
}

/// An extension of responses: the message of the error, for the access log.
#[derive(Debug, Clone)]
pub(crate) struct ErrorMessage(pub(crate) String);

/// An extension of requests: the function that renders errors in the format of the request's API. Without it, errors
/// are rendered in the format of the core API.
#[derive(Clone, Copy)]
pub(crate) struct ErrorRenderer(pub(crate) fn(ApiError) -> Response);

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        let make = match error.kind {
            ErrorKind::Invalid => Self::invalid,
            ErrorKind::Impossible => Self::impossible,
            ErrorKind::Forbidden => Self::forbidden,
            ErrorKind::OverQuota => Self::quota,
            ErrorKind::NotFound => Self::not_found,
            ErrorKind::Exists => Self::exists,
            ErrorKind::Conflict => Self::conflict,
            ErrorKind::RequestIdReused => Self::reused,
            ErrorKind::Unavailable => Self::unavailable,
            ErrorKind::Expired => Self::expired,
            ErrorKind::TimedOut => Self::timed_out,
            ErrorKind::Internal => Self::internal,
        };
        let made: Self = make(error.message);
        let code = error.code.map_or_else(|| made.code.clone(), Into::into);
        Self { code, action: error.action.map(|id| id.to_string()), ..made }
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        ServiceError::from(denied).into()
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let mut metadata = MetadataMap::new();
        let carried = [(ERROR_HEADER, Some(&error.code)), (ACTION_HEADER, error.action.as_ref())];
        for (name, value) in carried {
            // A code that is not a valid header value is still in the details.
            if let Some(value) = value.and_then(|value| value.parse().ok()) {
                metadata.insert(name, value);
            }
        }
        let details = error.details().into();
        let mut status =
            Self::with_details_and_metadata(error.grpc_code, error.message.clone(), details, metadata);
        status.set_source(Arc::new(error));
        status
    }
}

impl From<&Status> for ApiError {
    /// Returns the error that the status was converted from in this process, or else an error for the status's code.
    fn from(status: &Status) -> Self {
        let source = status.source().and_then(|source| source.downcast_ref::<Self>());
        source.cloned().unwrap_or_else(|| by_code(status.code(), status.message()))
    }
}

fn by_code(code: Code, message: &str) -> ApiError {
    let make = match code {
        Code::InvalidArgument | Code::OutOfRange => ApiError::invalid,
        Code::FailedPrecondition => ApiError::impossible,
        Code::Unauthenticated => ApiError::unauthenticated,
        Code::PermissionDenied => ApiError::forbidden,
        Code::NotFound => ApiError::not_found,
        Code::AlreadyExists => ApiError::exists,
        Code::Aborted => ApiError::conflict,
        Code::ResourceExhausted => ApiError::too_many,
        Code::Unimplemented => ApiError::unimplemented,
        Code::Unavailable => ApiError::unavailable,
        Code::DeadlineExceeded => ApiError::timed_out,
        Code::Cancelled => {
            let status = StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST);
            return ApiError::new("Cancelled", status, code, message);
        }
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => ApiError::internal,
    };
    ApiError { grpc_code: code, ..make(message) }
}
