//! Errors of the store.

use muster_core::action::Action;
use muster_core::ids::{ActionId, NodeId};

/// The reason why a command was not executed. It had no effect.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, is locked, or its disk is full.
    #[error("the database cannot be used now: {0}")]
    Unavailable(String),
    /// Another command was faster; the same one may work now.
    #[error("the database was busy with a conflicting change: {0}")]
    Contended(String),
    /// A unique index refused a row.
    #[error("there is such a row already: {0}")]
    Duplicate(String),
    /// A rule of the database refuses a value, which it would do again.
    #[error("the database refuses to store a value: {0}")]
    Unstorable(String),
    /// A cursor of another list.
    #[error("the place to go on from belongs to another list: begin again")]
    ForeignCursor,
    /// A row says something that this version cannot read.
    #[error("the database holds something unreadable: {0}")]
    Corrupt(String),
    /// The database was made for a newer Muster.
    #[error("the database needs a Muster that reads version {needed}; this one reads up to {known}")]
    TooNew {
        /// The required version.
        needed: i64,
        /// The supported version.
        known: i64,
    },
    /// Another engine has taken the action over, or it has ended.
    #[error("action {0} is not this engine's any more")]
    Fenced(ActionId),
    /// Another action is in the way.
    #[error("{}", conflict(.0))]
    Conflict(Vec<Action>),
    /// Nodes that should come into a cluster are gone, do not work, are in another one, or another action has them.
    #[error("nodes are not free to join: {}", listed(.0))]
    NotFree(Vec<NodeId>),
    /// A cluster of that name is there already.
    #[error(
        "cluster '{name}' already exists in namespace '{namespace}': choose another name, or delete it first"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// A job of that name is stored already.
    #[error("job '{name}' already exists in namespace '{namespace}': choose another name")]
    JobNameTaken {
        /// The name.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// A project has as many clusters as it may have.
    #[error(
        "project '{project}' has {count} clusters, and may have {limit}: delete one, or ask for a higher limit"
    )]
    OverQuota {
        /// The project.
        project: String,
        /// The present number.
        count: i64,
        /// The quota.
        limit: i64,
    },
    /// The same request id came with another request.
    #[error("request id '{0}' was used before for a different request: use a new one")]
    RequestIdReused(String),
    /// There is no such object.
    #[error("the {kind} '{given}' could not be found")]
    NotFound {
        /// The kind of the object.
        kind: &'static str,
        /// The given name or id.
        given: String,
    },
    /// The action is a part of another one, which takes this signal.
    #[error(
        "action {id} is a part of action {parent} and cannot be {signalled} alone: signal {parent} instead"
    )]
    PartOf {
        /// The action.
        id: ActionId,
        /// The one that it is a part of.
        parent: ActionId,
        /// The requested signal.
        signalled: &'static str,
    },
    /// The action is not in a state where this is possible.
    #[error("action {id} is {status}: {wanted}")]
    WrongState {
        /// The action.
        id: ActionId,
        /// The present status.
        status: &'static str,
        /// The states in which the request would be possible.
        wanted: &'static str,
    },
}

fn listed(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}

fn conflict(holders: &[Action]) -> String {
    let ids: Vec<String> = holders.iter().map(|action| format!("{} ({})", action.id, action.kind)).collect();
    format!("another action is under way: {}; wait for it, or cancel it", ids.join(", "))
}

impl StoreError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt(what.into())
    }

    /// The database's own failing in a word, for metrics; none if a command was refused by a rule.
    pub(crate) const fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Unavailable(_) => Some("unavailable"),
            Self::Contended(_) => Some("contended"),
            Self::Corrupt(_) => Some("corrupt"),
            _ => None,
        }
    }

    /// Whether the same command may work in a moment.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Contended(_))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. } => Self::Corrupt(error.to_string()),
            sqlx::Error::Database(database) if database.is_unique_violation() => {
                Self::Duplicate(error.to_string())
            }
            // The referenced row was removed, or is referenced only now: the command reads again.
            sqlx::Error::Database(database) if database.is_foreign_key_violation() => {
                Self::Contended(error.to_string())
            }
            sqlx::Error::Database(database) if database.code().is_some_and(|code| is_contention(&code)) => {
                Self::Contended(error.to_string())
            }
            sqlx::Error::Database(database) if database.code().is_some_and(|code| is_refusal(&code)) => {
                Self::Unstorable(database.message().to_owned())
            }
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// PostgreSQL's codes for "serialization failure", "deadlock detected" and "lock not available".
fn is_contention(code: &str) -> bool {
    matches!(code, "40001" | "40P01" | "55P03")
}

/// PostgreSQL's classes for unfit values, violated constraints (of those that are left here, a second attempt
/// meets them again) and exceeded limits.
fn is_refusal(code: &str) -> bool {
    ["22", "23", "54"].iter().any(|class| code.starts_with(class))
}
