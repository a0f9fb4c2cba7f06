//! What happened, to what, by whom, through which door, why. Never rewritten.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{ActionId, ClusterId, EventId};
use crate::principal::Door;
use crate::string_enum::string_enum;
use crate::time::Timestamp;

string_enum! {
    /// How much an event matters.
    stored Level, "event level" {
        /// For whoever looks closely.
        Debug = "DEBUG",
        /// As it should be.
        Info = "INFO",
        /// Worth attention.
        Warn = "WARN",
        /// Something did not work.
        Error = "ERROR",
        /// Something does not work any more.
        Critical = "CRITICAL",
    }
}

string_enum! {
    /// What kind of object an event is about.
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
    /// When.
    pub at: Timestamp,
    /// How much it matters.
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
    /// What was done: an action's word, or a reason such as `HostRestarted`.
    pub reason: String,
    /// `start`, `end`, `error`, or empty.
    pub phase: String,
    /// In words.
    pub message: String,
    /// Who did it.
    pub user: String,
    /// The tenant.
    pub project: String,
    /// The way it came in.
    pub door: Door,
    /// More, for those who parse.
    pub data: Map<String, Value>,
}
