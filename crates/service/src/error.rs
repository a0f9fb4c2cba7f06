//! Errors of the use cases: a class that every API maps to its own status, a stable code, and a message.

use std::borrow::Cow;

use muster_core::ids::ActionId;
use muster_engine::ports::provider::{ALREADY_EXISTS, INVALID, NO_NAMESPACE, ProviderError};
use muster_engine::{Conflict, QueryError, SubmitError};
use muster_store::StoreError;

use crate::authorize::Denied;

#[cfg(test)]
mod tests;

/// The class of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A value is invalid.
    Invalid,
    /// The present state does not allow the operation.
    Impossible,
    /// The caller may see the object, but may not perform the operation.
    Forbidden,
    /// The caller's quota does not allow the operation.
    OverQuota,
    /// The object does not exist, or the caller may not see it.
    NotFound,
    /// The name is taken.
    Exists,
    /// Another action is changing the object.
    Conflict,
    /// The request id was used with another request before.
    RequestIdReused,
    /// A dependency is unreachable at present.
    Unavailable,
    /// A token refers to history that has been deleted.
    Expired,
    /// The action took longer than the caller waits.
    TimedOut,
    /// A defect of Muster.
    Internal,
}

impl ErrorKind {
    /// The class of a permanent refusal of a provider, by its stable reason.
    pub(crate) fn of_refusal(reason: &str) -> Self {
        match reason {
            "QuotaExceeded" => Self::OverQuota,
            "Forbidden" => Self::Forbidden,
            // Like an invalid object, a refusal by an admission webhook concerns the object itself.
            INVALID | "Rejected" | "TooLarge" => Self::Invalid,
            "NotFound" | NO_NAMESPACE => Self::NotFound,
            ALREADY_EXISTS => Self::Exists,
            "NamespaceTerminating" => Self::Conflict,
            _ => Self::Impossible,
        }
    }
}

/// The obstacle behind a refusal, for APIs with their own messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Other actions on the same target.
    Conflict(Box<Conflict>),
    /// A scaling policy whose cooldown is not over.
    Cooldown,
    /// The provider refused the change of an action permanently, for this stable reason.
    Provider(String),
    /// The status of the action, which does not allow the operation.
    ActionStatus(&'static str),
}

/// A refusal by a use case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    /// The class.
    pub kind: ErrorKind,
    /// A stable code that is more precise than the class, for programs.
    pub code: Option<Cow<'static, str>>,
    /// The message for users, with the value, the rule and the remedy.
    pub message: String,
    /// The action that the error is about, which may still be running.
    pub action: Option<ActionId>,
    /// The obstacle behind the refusal.
    pub obstacle: Option<Obstacle>,
}

impl ServiceError {
    /// A refusal of a class.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, code: None, message: message.into(), action: None, obstacle: None }
    }

    /// A value is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The present state does not allow the operation.
    pub fn impossible(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Impossible, message)
    }

    /// The caller may see the object, but may not perform the operation.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, message)
    }

    /// The object does not exist, or the caller may not see it.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Sets a code that is more precise than the class.
    #[must_use]
    pub fn code(self, code: impl Into<Cow<'static, str>>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Names the action that the error is about.
    #[must_use]
    pub fn about(self, action: ActionId) -> Self {
        Self { action: Some(action), ..self }
    }
}

impl From<Denied> for ServiceError {
    fn from(denied: Denied) -> Self {
        let message = denied.to_string();
        match denied {
            Denied::Unseen(_) => Self::not_found(message),
            Denied::Forbidden(_) => Self::forbidden(message),
        }
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Unavailable(_) | StoreError::Contended(_) => {
                tracing::warn!(error = %message, "the database is not available");
                let message = if message.contains("disk is full") {
                    "the disk of the database is full: free some space there"
                } else {
                    "the database cannot be used now: try again in a moment"
                };
                Self::new(ErrorKind::Unavailable, message)
            }
            StoreError::Unstorable(_) => {
                Self::invalid(format!("{message}: remove NUL characters, and shorten very long values"))
            }
            StoreError::ForeignCursor => Self::invalid(format!("page_token: {message}")),
            StoreError::NameTaken { .. } => Self::new(ErrorKind::Exists, message).code("ClusterNameTaken"),
            StoreError::JobNameTaken { .. } => Self::new(ErrorKind::Exists, message).code("JobNameTaken"),
            StoreError::OverQuota { .. } => Self::new(ErrorKind::OverQuota, message),
            StoreError::RequestIdReused(_) => Self::new(ErrorKind::RequestIdReused, message),
            StoreError::NotFound { .. } => Self::not_found(message),
            StoreError::Conflict(_) | StoreError::PartOf { .. } | StoreError::NotFree(_) => {
                Self::new(ErrorKind::Conflict, message)
            }
            StoreError::WrongState { status, .. } => {
                Self { obstacle: Some(Obstacle::ActionStatus(status)), ..Self::impossible(message) }
            }
            StoreError::Corrupt(_)
            | StoreError::TooNew { .. }
            | StoreError::Fenced(_)
            | StoreError::Duplicate(_) => {
                tracing::error!(error = %message, "unexpected error of the database");
                let message = "unexpected error of the database: see the server's log";
                Self::new(ErrorKind::Internal, message)
            }
        }
    }
}

impl From<SubmitError> for ServiceError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::NoProvider(_) => Self::invalid(message).code("NoProvider"),
            SubmitError::UnknownType { .. } => Self::invalid(message).code("UnknownProfileType"),
            SubmitError::LocalCode => Self::forbidden(message).code("LocalProcessesNeedAdmin"),
            SubmitError::NotSupported(_) => Self::invalid(message).code("NotSupported"),
            SubmitError::Invalid(_) => Self::invalid(message),
            SubmitError::NoNamespace(_) => Self::not_found(message).code(NO_NAMESPACE),
            SubmitError::TooLarge(_) => Self::invalid(message).code("TooLarge"),
            SubmitError::Missing(error) => error.into(),
            SubmitError::AppUnknown(_) => Self::new(ErrorKind::Unavailable, message).code("AppUnknown"),
        }
    }
}

impl From<QueryError> for ServiceError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Store(error) => error.into(),
            QueryError::NotServed(_) => Self::impossible(error.to_string()).code("InstanceNotServed"),
            QueryError::Provider(error) => error.into(),
        }
    }
}

impl From<ProviderError> for ServiceError {
    fn from(ProviderError { transient, reason, message, .. }: ProviderError) -> Self {
        let kind = if transient { ErrorKind::Unavailable } else { ErrorKind::of_refusal(&reason) };
        Self::new(kind, message).code(reason)
    }
}
