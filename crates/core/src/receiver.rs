//! Receivers: webhook addresses that trigger actions without an account.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::action::ActionKind;
use crate::ids::{ClusterId, ReceiverId};
use crate::principal::Principal;
use crate::string_enum::string_enum;
use crate::time::Timestamp;

string_enum! {
    /// The trigger of a receiver.
    stored ReceiverKind, "receiver type" {
        /// A request to the address of the receiver.
        Webhook = "webhook",
        /// A message in a queue.
        Message = "message",
    }
}

/// An address that triggers an action on a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receiver {
    /// The id, which is also the secret that allows its use.
    pub id: ReceiverId,
    /// Its name.
    pub name: String,
    /// The trigger.
    pub kind: ReceiverKind,
    /// The tenant.
    pub project: String,
    /// The principal in whose name actions run: the creator, or the last user who changed what the receiver does.
    pub principal: Principal,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The action on the cluster.
    pub action: ActionKind,
    /// The actor, stored for clients as they give it.
    pub actor: Map<String, Value>,
    /// The inputs of the action, unless the request that triggers it gives others.
    pub params: Map<String, Value>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
}
