//! Changes of nodes.

use muster_core::action::{Action, ActionKind};
use muster_core::ids::ProfileId;
use muster_core::node::Node;
use muster_engine::{Caller, NewNode};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::inputs;
use crate::error::ServiceError;
use crate::service::Service;

/// Changed properties of a node; absent ones stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeUpdate {
    /// What users call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Another recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<ProfileId>,
    /// What users call its role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Merged by key; null removes a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Whether it is deleted first when its cluster shrinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tainted: Option<bool>,
}

impl NodeUpdate {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How a node is recovered; absent values are the engine's to choose.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeRecovery {
    /// What is done: REBOOT, REBUILD or RECREATE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// How exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_params: Option<Map<String, Value>>,
    /// Observe the node first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// Recreate it even if it cannot be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_recreate: Option<bool>,
    /// How long its deletion may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_timeout: Option<u32>,
}

impl Service {
    /// Creates a node, alone or as a member; returns the action and the node as it is stored.
    pub async fn create_node(&self, caller: &Caller, new: NewNode) -> Result<(Action, Node), ServiceError> {
        let (accepted, node) = self.engine.create_node(new, caller.clone()).await?;
        Ok((accepted.action, node))
    }

    /// Changes properties of a node.
    pub async fn update_node(
        &self,
        caller: &Caller,
        node: &Node,
        update: &NodeUpdate,
    ) -> Result<Action, ServiceError> {
        self.submit_node(caller, ActionKind::NodeUpdate, node, inputs(update)).await
    }

    /// Deletes a node.
    pub async fn delete_node(
        &self,
        caller: &Caller,
        node: &Node,
        force: bool,
    ) -> Result<Action, ServiceError> {
        let inputs = if force { json!({"force": true}) } else { json!({}) };
        self.submit_node(caller, ActionKind::NodeDelete, node, inputs).await
    }

    /// Observes a node.
    pub async fn check_node(
        &self,
        caller: &Caller,
        node: &Node,
        params: Map<String, Value>,
    ) -> Result<Action, ServiceError> {
        self.submit_node(caller, ActionKind::NodeCheck, node, Value::Object(params)).await
    }

    /// Recovers a node.
    pub async fn recover_node(
        &self,
        caller: &Caller,
        node: &Node,
        recovery: &NodeRecovery,
    ) -> Result<Action, ServiceError> {
        self.submit_node(caller, ActionKind::NodeRecover, node, inputs(recovery)).await
    }

    /// Runs an operation of the profile type on a node.
    pub async fn operate_node(
        &self,
        caller: &Caller,
        node: &Node,
        operation: &str,
        params: &Map<String, Value>,
    ) -> Result<Action, ServiceError> {
        let inputs = json!({"operation": operation, "params": params});
        self.submit_node(caller, ActionKind::NodeOperation, node, inputs).await
    }
}
