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
        /// Worth attention.
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
        /// Anything else.
        Other = "OTHER",
    }
}

/// Something that happened.
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
    /// The object.
    pub object_id: String,
    /// The object's name at that time.
    pub object_name: String,
    /// The cluster it belongs to.
    pub cluster_id: Option<ClusterId>,
    /// The action behind it.
    pub action_id: Option<ActionId>,
    /// The label of an action, or a reason such as `HostRestarted`.
    pub reason: String,
    /// `start`, `end`, `error`, or empty.
    pub phase: String,
    /// The message.
    pub message: String,
    /// The user.
    pub user: String,
    /// The tenant.
    pub project: String,
    /// The API that it came through.
    pub door: Door,
    /// More, in machine-readable form.
    pub data: Map<String, Value>,
}
