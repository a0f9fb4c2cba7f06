//! Events: what happened, to what, by whom, through which API, and why. Never rewritten, except that the data of an
//! external event follows its repetitions.

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

/// An event in the system that published it, such as Kubernetes, which counts repetitions in one record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExternalRecord {
    /// The name of the record.
    pub name: String,
    /// The number of occurrences.
    pub count: u32,
    /// The time of the first occurrence.
    pub first: Timestamp,
    /// The time of the last occurrence.
    pub last: Timestamp,
}

impl ExternalRecord {
    /// The key in the data of an event.
    pub const KEY: &str = "record";

    /// The record of an external event; none for an event of Muster.
    pub fn of(event: &Event) -> Option<Self> {
        Self::deserialize(event.data.get(Self::KEY)?).ok()
    }
}
