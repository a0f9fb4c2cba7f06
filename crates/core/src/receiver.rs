//! Receivers: addresses by which others may change a cluster without an account of their own.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::action::ActionKind;
use crate::ids::{ClusterId, ReceiverId};
use crate::principal::Principal;
use crate::string_enum::string_enum;
use crate::time::Timestamp;

string_enum! {
    /// How a receiver is told.
    stored ReceiverKind, "receiver type" {
        /// By a request to its address.
        Webhook = "webhook",
        /// By a message in a queue.
        Message = "message",
    }
}

/// An address by which others may change a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receiver {
    /// Its id; whoever knows it may use it.
    pub id: ReceiverId,
    /// Its name.
    pub name: String,
    /// How it is told.
    pub kind: ReceiverKind,
    /// The tenant.
    pub project: String,
    /// Who made it: what it does is done for that one.
    pub principal: Principal,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// What is done to it.
    pub action: ActionKind,
    /// Whose rights were given to it, as clients say it.
    pub actor: Map<String, Value>,
    /// The action's inputs, unless those who tell it say others.
    pub params: Map<String, Value>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}
