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
        /// By a request to its address.
        Webhook = "webhook",
        /// By a message in a queue.
        Message = "message",
    }
}

/// An address that triggers an action on a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receiver {
    /// Its id; also the secret that allows its use.
    pub id: ReceiverId,
    /// Its name.
    pub name: String,
    /// The trigger.
    pub kind: ReceiverKind,
    /// The tenant.
    pub project: String,
    /// Its creator: actions run in this principal's name.
    pub principal: Principal,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The action on the cluster.
    pub action: ActionKind,
    /// The actor, as clients give it.
    pub actor: Map<String, Value>,
    /// The action's inputs, unless the trigger gives others.
    pub params: Map<String, Value>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
}
