//! Errors of the store.

use muster_core::action::Action;
use muster_core::ids::{ActionId, NodeId};

/// The reason why a command was not executed. It had no effect.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, is locked, or its disk is full.
    #[error("the database cannot be used now: {0}")]
    Unavailable(String),
    /// Another command conflicted; a retry may succeed.
    #[error("the database was busy with a conflicting change: {0}")]
    Contended(String),
    /// A unique index refused a row.
    #[error("the row already exists: {0}")]
    Duplicate(String),
    /// A constraint of the database refuses a value; a retry would fail, too.
    #[error("the database refuses to store a value: {0}")]
    Unstorable(String),
    /// The cursor belongs to another list.
    #[error("the page position belongs to another list: begin with the first page")]
    ForeignCursor,
    /// A row has a value that this version cannot read.
    #[error("the database has a value that cannot be read: {0}")]
    Corrupt(String),
    /// The database has the schema of a newer version, which this one cannot read.
    #[error(
        "the schema of the database needs version {needed}; this server supports up to {known}: use a newer Muster"
    )]
    TooNew {
        /// The required version.
        needed: i64,
        /// The supported version.
        known: i64,
    },
    /// Another engine has taken over the action, or the action has ended.
    #[error("another engine owns action {0}, or it has ended")]
    Fenced(ActionId),
    /// Another action on the target conflicts.
    #[error("{}", conflict(.0))]
    Conflict(Vec<Action>),
    /// Nodes cannot join a cluster: they are gone, not ACTIVE, in another cluster, or locked by another action.
    #[error("nodes are not free to join: {}", listed(.0))]
    NotFree(Vec<NodeId>),
    /// A cluster of that name exists already.
    #[error(
        "cluster '{name}' already exists in namespace '{namespace}': choose another name, or delete it first"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// A job of that name exists already.
    #[error("job '{name}' already exists in namespace '{namespace}': choose another name")]
    JobNameTaken {
        /// The name.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// The project has reached its quota of clusters.
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
    /// The request id was used for a different request.
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
    /// The action is a child of another action, which must be signalled instead.
    #[error(
        "action {id} is a part of action {parent} and cannot be {signalled} alone: signal {parent} instead"
    )]
    PartOf {
        /// The action.
        id: ActionId,
        /// The parent action.
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

    /// The kind of a failure of the database, for metrics; `None` if a command was refused by a rule.
    pub(crate) const fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Unavailable(_) => Some("unavailable"),
            Self::Contended(_) => Some("contended"),
            Self::Corrupt(_) => Some("corrupt"),
            _ => None,
        }
    }

    /// Returns true if a retry of the command may succeed.
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
            // The referenced row was removed, or got a reference, meanwhile: a retry reads the new state.
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

/// PostgreSQL's error classes for unfit values, violated constraints (those that are left here fail again) and exceeded
/// limits.
fn is_refusal(code: &str) -> bool {
    ["22", "23", "54"].iter().any(|class| code.starts_with(class))
}
