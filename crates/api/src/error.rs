//! One error for every door: a stable word, a sentence, and its status over HTTP and gRPC.

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

/// The metadata and header that carry the word of a refusal.
pub const ERROR_HEADER: &str = "muster-error";

/// The metadata and header that carry the action behind an answer.
pub const ACTION_HEADER: &str = "muster-action-id";

/// Whose words these are.
pub const DOMAIN: &str = "muster.dev";

/// Declares the constructors of [`ApiError`], each with its word and statuses.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $http:ident, $grpc:ident;)+) => {
        impl ApiError {
            $(
                $(#[$doc])*
                pub fn $name(sentence: impl Into<String>) -> Self {
                    Self::new($word, StatusCode::$http, Code::$grpc, sentence)
                }
            )+
        }
    };
}

refusals! {
    /// A value that cannot be used.
    invalid = "InvalidArgument", BAD_REQUEST, InvalidArgument;
    /// Something that is not possible as things are.
    impossible = "FailedPrecondition", BAD_REQUEST, FailedPrecondition;
    /// Nobody vouches for the caller.
    unauthenticated = "Unauthenticated", UNAUTHORIZED, Unauthenticated;
    /// The caller may see it, but not do this.
    forbidden = "Forbidden", FORBIDDEN, PermissionDenied;
    /// More than the caller's share.
    quota = "QuotaExceeded", FORBIDDEN, PermissionDenied;
    /// It is not there, or the caller may not see it.
    not_found = "NotFound", NOT_FOUND, NotFound;
    /// Its name is taken.
    exists = "AlreadyExists", CONFLICT, AlreadyExists;
    /// Somebody else is changing it.
    conflict = "Conflict", CONFLICT, Aborted;
    /// A page token older than the history.
    expired = "PageTokenExpired", GONE, FailedPrecondition;
    /// A body larger than a door takes.
    too_large = "BodyTooLarge", PAYLOAD_TOO_LARGE, InvalidArgument;
    /// A body that is no JSON by its content type.
    not_json = "UnsupportedMediaType", UNSUPPORTED_MEDIA_TYPE, InvalidArgument;
    /// A request id that came with another body before.
    reused = "RequestIdReused", UNPROCESSABLE_ENTITY, InvalidArgument;
    /// Too much at once.
    too_many = "TooManyRequests", TOO_MANY_REQUESTS, ResourceExhausted;
    /// There is no such method.
    unimplemented = "Unimplemented", NOT_IMPLEMENTED, Unimplemented;
    /// Something needed cannot be reached now.
    unavailable = "Unavailable", SERVICE_UNAVAILABLE, Unavailable;
    /// It took too long.
    timed_out = "DeadlineExceeded", GATEWAY_TIMEOUT, DeadlineExceeded;
    /// A defect of Muster.
    internal = "Internal", INTERNAL_SERVER_ERROR, Internal;
}

/// A refusal, as every door gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct ApiError {
    /// A stable word, for programs.
    pub word: String,
    /// What is wrong, with the value and the limit, and what to do; for people.
    pub sentence: String,
    /// Its status over HTTP.
    pub status: StatusCode,
    /// Its code over gRPC.
    pub code: Code,
    /// The action that goes on, if one does.
    pub action: Option<String>,
}

impl ApiError {
    /// A refusal of its own kind.
    pub fn new(word: impl Into<String>, status: StatusCode, code: Code, sentence: impl Into<String>) -> Self {
        Self { word: word.into(), sentence: sentence.into(), status, code, action: None }
    }

    /// The same with a more precise word.
    #[must_use]
    pub fn word(mut self, word: impl Into<String>) -> Self {
        self.word = word.into();
        self
    }

    /// The same, with the action that goes on.
    #[must_use]
    pub fn about(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    fn details(&self) -> Vec<u8> {
        let info =
            ErrorInfo { reason: self.word.clone(), domain: DOMAIN.to_owned(), metadata: BTreeMap::new() };
        let any = Any { type_url: ERROR_INFO.to_owned(), value: info.encode_to_vec() };
        muster_proto::rpc::Status {
            code: self.code as i32,
            message: self.sentence.clone(),
            details: vec![any],
        }
        .encode_to_vec()
    }
}

/// The message of an error, beside the body that has it too; for the access log.
#[derive(Debug, Clone)]
pub(crate) struct ErrorMessage(pub(crate) String);

/// How the API that a request belongs to renders errors. The API leaves it in the request's extensions; without one,
/// errors are rendered as the core API does.
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
        let word = error.code.map_or_else(|| made.word.clone(), Into::into);
        Self { word, action: error.action.map(|id| id.to_string()), ..made }
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
        let carried = [(ERROR_HEADER, Some(&error.word)), (ACTION_HEADER, error.action.as_ref())];
        for (name, value) in carried {
            // A word that is no header value is still in the details.
            if let Some(value) = value.and_then(|value| value.parse().ok()) {
                metadata.insert(name, value);
            }
        }
        let details = error.details().into();
        let mut status =
            Self::with_details_and_metadata(error.code, error.sentence.clone(), details, metadata);
        status.set_source(Arc::new(error));
        status
    }
}

impl From<&Status> for ApiError {
    /// The very error that became this status in this process; else what its code says.
    fn from(status: &Status) -> Self {
        let source = status.source().and_then(|source| source.downcast_ref::<Self>());
        source.cloned().unwrap_or_else(|| by_code(status.code(), status.message()))
    }
}

fn by_code(code: Code, sentence: &str) -> ApiError {
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
            return ApiError::new("Cancelled", status, code, sentence);
        }
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => ApiError::internal,
    };
    ApiError { code, ..make(sentence) }
}
