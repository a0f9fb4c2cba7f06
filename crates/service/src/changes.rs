//! Changes of clusters and nodes, one function per use case with typed parameters.
//!
//! This is the only place where requests of users become inputs of actions.

mod clusters;
mod nodes;
mod receivers;
mod update;

use muster_core::action::{Action, ActionKind, OnConflict, Target};
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Node;
use muster_core::principal::Door;
use muster_engine::{Caller, Change, NodeChange, SubmitError};
use serde::Serialize;
use serde_json::{Map, Value};

pub use clusters::{ClusterRecovery, PolicyChange, ScaleDirection};
pub use nodes::{NodeRecovery, NodeUpdate};
pub use receivers::TriggerError;
pub use update::{ClusterUpdate, LimitChanges};

use crate::error::{ErrorKind, Obstacle, ServiceError};
use crate::service::Service;

/// What happens if another action holds the target, by the API that the request came through.
const fn on_conflict(door: Door, kind: ActionKind) -> OnConflict {
    match (kind, door) {
        (_, Door::Webhook) => OnConflict::Reject,
        (ActionKind::ClusterDelete | ActionKind::NodeDelete, _) => OnConflict::Preempt,
        (ActionKind::NodeOperation, _) => OnConflict::Queue,
        (_, Door::Clustering) => OnConflict::Reject,
        _ => OnConflict::Queue,
    }
}

/// The inputs of an action as they are stored.
fn inputs(typed: &impl Serialize) -> Value {
    // Structs whose keys are texts: there is nothing that could fail.
    serde_json::to_value(typed).unwrap_or_else(|_| Value::Object(Map::new()))
}

fn refused(error: SubmitError, kind: ActionKind, target: Target) -> ServiceError {
    let obstacle = error.conflict(kind, target).map(|conflict| Obstacle::Conflict(Box::new(conflict)));
    ServiceError { obstacle, ..error.into() }
}

impl Service {
    async fn submit(
        &self,
        caller: &Caller,
        kind: ActionKind,
        cluster: &Cluster,
        node: Option<NodeId>,
        inputs: Value,
    ) -> Result<Action, ServiceError> {
        let on_conflict = on_conflict(caller.door, kind);
        let target = node.map_or(Target::Cluster(cluster.id), Target::Node);
        let change = Change { kind, cluster: cluster.clone(), node, inputs, on_conflict, timeout: None };
        let submitted = Box::pin(self.engine.submit(change, caller.clone())).await;
        submitted.map(|accepted| accepted.action).map_err(|error| refused(error, kind, target))
    }

    async fn submit_node(
        &self,
        caller: &Caller,
        kind: ActionKind,
        node: &Node,
        inputs: Value,
    ) -> Result<Action, ServiceError> {
        let on_conflict = on_conflict(caller.door, kind);
        let change = NodeChange { kind, node: node.clone(), inputs, on_conflict, timeout: None };
        let submitted = Box::pin(self.engine.submit_node(change, caller.clone())).await;
        submitted.map(|accepted| accepted.action).map_err(|error| refused(error, kind, Target::Node(node.id)))
    }

    /// Refuses to scale while a scaling policy's cooldown is not over.
    async fn check_cooldown(&self, cluster: ClusterId, kind: ActionKind) -> Result<(), ServiceError> {
        let Some(policy) = self.engine.cooling(cluster, kind).await? else { return Ok(()) };
        let message = format!(
            "The {kind} action for cluster {cluster} cannot be processed due to Policy {} cooldown still in progress",
            policy.id
        );
        let obstacle = Some(Obstacle::Cooldown);
        Err(ServiceError { obstacle, ..ServiceError::new(ErrorKind::Conflict, message) })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Door::Core, ActionKind::ClusterResize, OnConflict::Queue)]
    #[case(Door::Scaler, ActionKind::ClusterResize, OnConflict::Queue)]
    #[case(Door::Clustering, ActionKind::ClusterResize, OnConflict::Reject)]
    #[case(Door::Clustering, ActionKind::ClusterDelete, OnConflict::Preempt)]
    #[case(Door::Core, ActionKind::ClusterDelete, OnConflict::Preempt)]
    #[case(Door::Clustering, ActionKind::NodeDelete, OnConflict::Preempt)]
    #[case(Door::Clustering, ActionKind::NodeOperation, OnConflict::Queue)]
    #[case(Door::Webhook, ActionKind::ClusterDelete, OnConflict::Reject)]
    fn each_api_has_its_rule_for_conflicts(
        #[case] door: Door,
        #[case] kind: ActionKind,
        #[case] rule: OnConflict,
    ) {
        assert_eq!(on_conflict(door, kind), rule);
    }
}
