//! Individual membership: Muster starts and stops each node.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use serde_json::{Map, Value};

use crate::ports::provider::{ClusterTarget, FencedCall, ProviderError, UpdateOutcome};

/// The result of one node of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResult {
    /// The node.
    pub node: NodeId,
    /// Its physical id once it runs, or none once it is gone.
    pub result: Result<Option<String>, ProviderError>,
}

impl NodeResult {
    /// The higher fence that is there already, if that is why it failed.
    pub(crate) fn overtaken_by(&self) -> Option<Fence> {
        self.result.as_ref().err().and_then(|error| error.overtaken_by)
    }
}

/// Something that was made for a cluster or for a single node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderResource {
    /// What a cluster has beside its nodes, with all of them.
    Cluster(ClusterId),
    /// A node.
    Node(NodeId),
}

impl ProviderResource {
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        match self {
            Self::Cluster(id) => Some(*id),
            Self::Node(_) => None,
        }
    }

    pub(crate) fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node(id) => Some(*id),
            Self::Cluster(_) => None,
        }
    }
}

/// Starts and stops single nodes. It bounds its own parallelism.
#[async_trait]
pub trait NodeProvider: Send + Sync {
    /// Starts nodes, or waits for those that are starting already. One result per node, as they come.
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Stops nodes. One result per node, as they come; an absent node counts as stopped.
    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Why nodes that are being started do not work yet, and what those that are being stopped wait for, where that is
    /// known without a request.
    fn obstacles(&self, _: ClusterTarget<'_>, _changing: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        HashMap::new()
    }

    /// Changes a running node to its new recipe, the one in the call; or answers that it has to be recreated for that.
    async fn update_node(
        &self,
        _: FencedCall<'_>,
        _node: &Node,
        _before: &Profile,
    ) -> Result<UpdateOutcome, ProviderError> {
        Ok(UpdateOutcome::MustRecreate)
    }

    /// Performs an operation on a node. It may be performed twice, if the result of the first time was lost.
    async fn operate(
        &self,
        call: FencedCall<'_>,
        _node: &Node,
        operation: &str,
        _parameters: &Map<String, Value>,
    ) -> Result<(), ProviderError> {
        let message = format!(
            "The requested operation '{operation}' is not supported by the profile type '{}'.",
            call.profile.kind
        );
        Err(ProviderError::permanent("NotSupported", message))
    }

    /// Creates what a cluster needs beside its nodes.
    async fn prepare_cluster(&self, _: FencedCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Changes what a cluster has beside its nodes from what it was `before`.
    async fn update_cluster(&self, _: FencedCall<'_>, _before: &Cluster) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Removes what is left of a cluster, nodes included.
    async fn clear_cluster(&self, _: FencedCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// What was made here with this database, as far as it is still there: also what has no row any more.
    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        Ok(Vec::new())
    }

    /// Ends and removes what has no row, whatever its fence.
    async fn remove_leftover(&self, _: ProviderResource) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Reads an external object, and returns the profile properties of a node like it. Called only where
    /// [`Capabilities::adopt`](super::Capabilities::adopt) is set.
    async fn adopt(&self, kind: &ProfileType, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        let message = format!("'{identity}' cannot become a node of type {kind}");
        Err(ProviderError::permanent("NotSupported", message))
    }

    /// Begins to manage an external object, after [`NodeProvider::adopt`].
    async fn take_in(&self, _: &ProfileType, _identity: &str) -> Result<(), ProviderError> {
        Ok(())
    }
}
