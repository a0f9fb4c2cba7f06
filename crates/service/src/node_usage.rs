//! The present usage of a cluster and its nodes.

use std::collections::HashMap;

use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_engine::ports::node_meter::NodeUsage;

use crate::error::ServiceError;
use crate::service::Service;

impl Service {
    /// Queries the framework of a cluster for the present activity.
    pub async fn activity(&self, cluster: &Cluster) -> Result<Activity, ServiceError> {
        check_present(cluster)?;
        Ok(self.engine.activity(cluster).await?)
    }

    /// The members of a cluster, with the usage of those that run.
    pub async fn node_usage(
        &self,
        cluster: &Cluster,
    ) -> Result<(Vec<Node>, HashMap<NodeId, NodeUsage>), ServiceError> {
        check_present(cluster)?;
        let nodes = self.members(cluster).await?;
        let usage = self.engine.node_usage(cluster, &nodes).await?;
        Ok((nodes, usage))
    }
}

fn check_present(cluster: &Cluster) -> Result<(), ServiceError> {
    match cluster.deleted_at {
        Some(_) => Err(ServiceError::not_found(format!("cluster '{}' was deleted", cluster.name))),
        None => Ok(()),
    }
}
