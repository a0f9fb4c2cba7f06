//! The present usage of the nodes of a cluster.

use std::collections::HashMap;

use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_engine::ports::node_meter::NodeUsage;

use crate::error::ServiceError;
use crate::service::Service;

impl Service {
    /// The members of a cluster, with the usage of those that run.
    pub async fn node_usage(
        &self,
        cluster: &Cluster,
    ) -> Result<(Vec<Node>, HashMap<NodeId, NodeUsage>), ServiceError> {
        if cluster.deleted_at.is_some() {
            return Err(ServiceError::not_found(format!("cluster '{}' was deleted", cluster.name)));
        }
        let nodes = self.members(cluster).await?;
        let usage = self.engine.node_usage(cluster, &nodes).await?;
        Ok((nodes, usage))
    }
}
