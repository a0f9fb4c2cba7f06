//! Individual membership: Muster starts and stops each node.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::action::Fence;
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
    /// The physical id of a node that runs, none for a node that is gone, or the error of the node.
    pub result: Result<Option<String>, ProviderError>,
}

impl NodeResult {
    /// Returns the higher fence that the target has seen, if that is why the call failed.
    pub(crate) fn overtaken_by(&self) -> Option<Fence> {
        self.result.as_ref().err().and_then(|error| error.overtaken_by)
    }
}

/// A resource that was created for a cluster or for a single node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderResource {
    /// The resources of a cluster besides its nodes, and all of its nodes.
    Cluster(ClusterId),
    /// A single node.
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

/// Starts and stops single nodes. Implementations bound their own parallelism.
#[async_trait]
pub trait NodeProvider: Send + Sync {
    /// Starts nodes, or waits for those that are starting already. Yields one result per node, as soon as it is known.
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Stops nodes. Yields one result per node, as soon as it is known; an absent node counts as stopped.
    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Returns why nodes that are being started do not work yet, and what nodes that are being stopped wait for, as far
    /// as that is known without a request.
    fn obstacles(&self, _: ClusterTarget<'_>, _changing: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        HashMap::new()
    }

    /// Returns the numbers of the GPU devices that only these nodes use, as far as the provider assigns devices.
    fn gpu_devices(&self, _: ClusterTarget<'_>, _nodes: &[NodeId]) -> HashMap<NodeId, Vec<u32>> {
        HashMap::new()
    }

    /// Updates a running node to its new recipe, the one in the call, or returns that the node has to be recreated.
    async fn update_node(
        &self,
        _: FencedCall<'_>,
        _node: &Node,
        _before: &Profile,
    ) -> Result<UpdateOutcome, ProviderError> {
        Ok(UpdateOutcome::MustRecreate)
    }

    /// Performs an operation on a node. An operation whose result was lost is performed again.
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

    /// Creates the resources that a cluster needs besides its nodes.
    async fn prepare_cluster(&self, _: FencedCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Removes all remaining resources of a cluster, including nodes.
    async fn clear_cluster(&self, _: FencedCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Lists the existing resources that were created with this database, including those that have no row any more.
    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        Ok(Vec::new())
    }

    /// Stops and removes a resource without a row, whatever its fence.
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
