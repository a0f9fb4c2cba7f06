//! Instruments the calls that write single nodes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use serde_json::{Map, Value};

use super::timer::CallTimers;
use crate::ports::provider::{
    ClusterTarget, FencedCall, NodeProvider, NodeResult, ProviderError, ProviderResource, UpdateOutcome,
};

/// A node provider whose calls are logged and counted.
pub(super) struct InstrumentedNodes {
    nodes: Arc<dyn NodeProvider>,
    timers: CallTimers,
}

impl InstrumentedNodes {
    pub(super) fn new(nodes: Arc<dyn NodeProvider>, timers: CallTimers) -> Self {
        Self { nodes, timers }
    }
}

#[async_trait]
impl NodeProvider for InstrumentedNodes {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let count = nodes.len();
        self.timers.batch("start_nodes", call.cluster, count, self.nodes.start_nodes(call, nodes))
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let count = nodes.len();
        self.timers.batch("stop_nodes", call.cluster, count, self.nodes.stop_nodes(call, nodes))
    }

    fn obstacles(&self, target: ClusterTarget<'_>, starting: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        self.nodes.obstacles(target, starting)
    }

    fn gpu_devices(&self, target: ClusterTarget<'_>, nodes: &[NodeId]) -> HashMap<NodeId, Vec<u32>> {
        self.nodes.gpu_devices(target, nodes)
    }

    async fn update_node(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        before: &Profile,
    ) -> Result<UpdateOutcome, ProviderError> {
        let timer = self.timers.begin("update_node", call.cluster, 1);
        timer.end(self.nodes.update_node(call, node, before).await)
    }

    async fn operate(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        operation: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(), ProviderError> {
        let timer = self.timers.begin("operate", call.cluster, 1);
        timer.end(self.nodes.operate(call, node, operation, parameters).await)
    }

    async fn prepare_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let timer = self.timers.begin("create", call.cluster, 0);
        timer.end(self.nodes.prepare_cluster(call).await)
    }

    async fn clear_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let timer = self.timers.begin("delete", call.cluster, 0);
        timer.end(self.nodes.clear_cluster(call).await)
    }

    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        self.nodes.list_resources().await
    }

    async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        self.nodes.remove_leftover(leftover).await
    }

    async fn adopt(&self, kind: &ProfileType, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        self.nodes.adopt(kind, identity).await
    }

    async fn take_in(&self, kind: &ProfileType, identity: &str) -> Result<(), ProviderError> {
        self.nodes.take_in(kind, identity).await
    }
}
