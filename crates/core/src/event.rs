//! Events: what happened, to what, by whom, through which API, and why. Never rewritten.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{ActionId, ClusterId, EventId};
use crate::principal::Door;
use crate::string_enum::string_enum;
use crate::time::Timestamp;

string_enum! {
    /// The level of an event.
    stored Level, "event level" {
        /// Details.
        Debug = "DEBUG",
        /// Normal operation.
        Info = "INFO",
        /// A condition that an operator should look into.
        Warn = "WARN",
        /// A failure.
        Error = "ERROR",
        /// A lasting failure.
        Critical = "CRITICAL",
    }
}

string_enum! {
    /// The kind of an event's object.
    stored ObjectKind, "object kind" {
        /// A cluster.
        Cluster = "CLUSTER",
        /// A node.
        Node = "NODE",
        /// An object of any other kind.
        Other = "OTHER",
    }
}

/// A record of something that happened to an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// The time.
    pub at: Timestamp,
    /// The level.
    pub level: Level,
    /// The kind of object.
    pub object_kind: ObjectKind,
    /// The id of the object.
    pub object_id: String,
    /// The object's name at that time.
    pub object_name: String,
    /// The cluster that the object belongs to, if any.
    pub cluster_id: Option<ClusterId>,
    /// The action that caused the event, if any.
    pub action_id: Option<ActionId>,
    /// The stable reason: the name of an action, or a word such as `HostRestarted`.
    pub reason: String,
    /// `start`, `end`, `error`, or empty.
    pub phase: String,
    /// The message.
    pub message: String,
    /// The id of the user who caused the event.
    pub user: String,
    /// The tenant.
    pub project: String,
    /// The API through which the change was requested.
    pub door: Door,
    /// Details in machine-readable form.
    pub data: Map<String, Value>,
}
