//! Changes of clusters.

use muster_core::action::{Action, ActionKind};
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, PolicyId};
use muster_core::node::NodeRole;
use muster_core::resize::Resize;
use muster_engine::{Caller, Recipe};
use muster_store::reads::NodeQuery;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ClusterUpdate, inputs};
use crate::error::ServiceError;
use crate::service::Service;

/// Which way a cluster is scaled by a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleDirection {
    /// More nodes.
    Out,
    /// Fewer nodes.
    In,
}

impl ScaleDirection {
    const fn kind(self) -> ActionKind {
        match self {
            Self::Out => ActionKind::ClusterScaleOut,
            Self::In => ActionKind::ClusterScaleIn,
        }
    }
}

/// How a cluster is recovered; absent values are the engine's to choose.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClusterRecovery {
    /// What is done to a lost node: REBOOT, REBUILD or RECREATE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// How exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_params: Option<Map<String, Value>>,
    /// Observe the nodes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// Create missing nodes and delete surplus ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_capacity: Option<bool>,
}

/// A change of how a policy is bound to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyChange {
    /// Binds it.
    Attach {
        /// Whether it acts.
        enabled: Option<bool>,
    },
    /// Unbinds it.
    Detach,
    /// Enables or disables it.
    Update {
        /// Whether it acts.
        enabled: Option<bool>,
    },
}

impl Service {
    /// Creates a cluster.
    pub async fn create_cluster(
        &self,
        caller: &Caller,
        cluster: Cluster,
        recipe: Recipe,
        unique_name: bool,
    ) -> Result<Action, ServiceError> {
        let accepted = self.engine.create_cluster(cluster, recipe, unique_name, caller.clone()).await?;
        Ok(accepted.action)
    }

    /// Deletes a cluster; `force` is stored as the request gives it.
    pub async fn delete_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        force: Option<bool>,
    ) -> Result<Action, ServiceError> {
        let inputs = force.map_or_else(|| json!({}), |force| json!({"force": force}));
        self.submit(caller, ActionKind::ClusterDelete, cluster, None, inputs).await
    }

    /// Ends the row of a cluster whose instance has had no engine for long; none if it has one.
    pub async fn abandon_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
    ) -> Result<Option<Action>, ServiceError> {
        Ok(self.engine.abandon(cluster, caller).await?)
    }

    /// Changes properties of a cluster.
    pub async fn update_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        update: &ClusterUpdate,
    ) -> Result<Action, ServiceError> {
        self.submit(caller, ActionKind::ClusterUpdate, cluster, None, inputs(update)).await
    }

    /// Changes the size or the bounds of a group; of the first one if none is named.
    pub async fn resize_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        group: Option<&str>,
        resize: &Resize,
    ) -> Result<Action, ServiceError> {
        let mut inputs = inputs(resize);
        if let Some(group) = group {
            inputs["group"] = group.into();
        }
        self.submit(caller, ActionKind::ClusterResize, cluster, None, inputs).await
    }

    /// Scales a cluster by a count, or by what its scaling policies say; refused during a policy's cooldown.
    pub async fn scale_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        direction: ScaleDirection,
        count: Option<u32>,
    ) -> Result<Action, ServiceError> {
        self.check_cooldown(cluster.id, direction.kind()).await?;
        let inputs = count.map_or_else(|| json!({}), |count| json!({"count": count}));
        self.submit(caller, direction.kind(), cluster, None, inputs).await
    }

    /// Restarts the head of a cluster. A head that was never created is created, with whatever else is missing.
    pub async fn restart_head(&self, caller: &Caller, cluster: &Cluster) -> Result<Action, ServiceError> {
        let query = NodeQuery {
            cluster: Some(cluster.id),
            role: Some(NodeRole::Head),
            limit: Some(1),
            ..NodeQuery::default()
        };
        let heads = self.engine.store().nodes(&query).await?.items;
        let head = heads.first().map(|node| node.id);
        let kind = match head {
            Some(_) => ActionKind::NodeRecover,
            None if cluster.has_head => ActionKind::ClusterRecover,
            None => {
                let message = format!("clusters of type {} have no head to restart", cluster.profile_type);
                return Err(ServiceError::invalid(message).code("NoHead"));
            }
        };
        self.submit(caller, kind, cluster, head, json!({})).await
    }

    /// Observes every node of a cluster.
    pub async fn check_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        params: Map<String, Value>,
    ) -> Result<Action, ServiceError> {
        self.submit(caller, ActionKind::ClusterCheck, cluster, None, Value::Object(params)).await
    }

    /// Recovers the lost nodes of a cluster.
    pub async fn recover_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        recovery: &ClusterRecovery,
    ) -> Result<Action, ServiceError> {
        self.submit(caller, ActionKind::ClusterRecover, cluster, None, inputs(recovery)).await
    }

    /// Lets orphans join a cluster.
    pub async fn add_nodes(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        nodes: &[NodeId],
    ) -> Result<Action, ServiceError> {
        let inputs = json!({"nodes": nodes});
        self.submit(caller, ActionKind::ClusterAddNodes, cluster, None, inputs).await
    }

    /// Lets members leave a cluster, or deletes them.
    pub async fn remove_nodes(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        nodes: &[NodeId],
        destroy: Option<bool>,
    ) -> Result<Action, ServiceError> {
        let mut inputs = json!({"nodes": nodes});
        if let Some(destroy) = destroy {
            inputs["destroy_after_deletion"] = destroy.into();
        }
        self.submit(caller, ActionKind::ClusterDelNodes, cluster, None, inputs).await
    }

    /// Exchanges members of a cluster for orphans, pair by pair.
    pub async fn replace_nodes(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        pairs: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) -> Result<Action, ServiceError> {
        let pairs = pairs.into_iter().map(|(old, new)| (old.to_string(), Value::from(new.to_string())));
        let inputs = json!({"nodes": pairs.collect::<Map<String, Value>>()});
        self.submit(caller, ActionKind::ClusterReplaceNodes, cluster, None, inputs).await
    }

    /// Changes how a policy is bound to a cluster.
    pub async fn change_policy(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        policy: PolicyId,
        change: PolicyChange,
    ) -> Result<Action, ServiceError> {
        let (kind, enabled) = match change {
            PolicyChange::Attach { enabled } => (ActionKind::ClusterAttachPolicy, enabled),
            PolicyChange::Detach => (ActionKind::ClusterDetachPolicy, None),
            PolicyChange::Update { enabled } => (ActionKind::ClusterUpdatePolicy, enabled),
        };
        let mut inputs = json!({"policy_id": policy.to_string()});
        if let Some(enabled) = enabled {
            inputs["enabled"] = enabled.into();
        }
        self.submit(caller, kind, cluster, None, inputs).await
    }

    /// Runs an operation of the profile type on the nodes of a cluster, on all of them if none are chosen.
    pub async fn operate_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        operation: &str,
        params: &Map<String, Value>,
        nodes: Option<&[NodeId]>,
    ) -> Result<Action, ServiceError> {
        let mut inputs = json!({"operation": operation, "params": params});
        if let Some(nodes) = nodes {
            inputs["nodes"] = json!(nodes);
        }
        self.submit(caller, ActionKind::ClusterOperation, cluster, None, inputs).await
    }
}
