//! The provider of an engine over the world's process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use muster_core::ids::InstanceId;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, FencedCall, NodeProvider, NodeResult, Observed, Operation, Provider,
    ProviderError, UpdateOutcome, WorldChange,
};

use super::lines;
use super::wire::{Verb, WorldAnswer, WorldCall, WorldRequest};
use crate::fake;

/// Nodes without a head, started one by one.
pub const WORLD_NODE: &str = "world.node-1.0";

/// Workers with a head that they cannot outlive, healed by default.
pub const WORLD_CLUSTER: &str = "world.cluster-1.0";

/// The number of concurrent calls: few, so that an engine that is stopped within a batch still has calls to make.
const AT_ONCE: usize = 4;

/// A provider whose nodes are in the world's process.
pub struct WorldProvider {
    instance: InstanceId,
    socket: PathBuf,
}

impl WorldProvider {
    /// Creates a provider of the instance `world:test`. Several providers can share a world, as engines share a
    /// machine.
    pub fn new(socket: &Path) -> Self {
        Self { instance: Self::instance_id(), socket: socket.to_owned() }
    }

    /// The instance of all these providers.
    pub fn instance_id() -> InstanceId {
        InstanceId::new("world", "test")
    }

    async fn request(&self, request: &WorldRequest) -> Result<WorldAnswer, ProviderError> {
        let answer = lines::send_request(&self.socket, request).await;
        match answer.map_err(|error| ProviderError::transient("WorldLost", error.to_string()))? {
            WorldAnswer::Refused { transient, reason, message } => {
                let refused = if transient { ProviderError::transient } else { ProviderError::permanent };
                Err(refused(&reason, message))
            }
            WorldAnswer::Overtaken { given, by } => Err(ProviderError::overtaken(given, by)),
            answer => Ok(answer),
        }
    }

    async fn call(
        &self,
        verb: Verb,
        call: FencedCall<'_>,
        node: Option<&Node>,
    ) -> Result<Option<String>, ProviderError> {
        let node = node.map(|node| (node.id, node.name.clone()));
        let call = WorldCall { verb, cluster: call.cluster.id, node, fence: call.fence };
        match self.request(&WorldRequest::Call(call)).await? {
            WorldAnswer::Done(physical_id) => Ok(physical_id),
            other => Err(ProviderError::permanent("Nonsense", format!("the world answered {other:?}"))),
        }
    }

    fn each<'a>(&'a self, verb: Verb, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let one = move |node: Node| {
            async move { NodeResult { node: node.id, result: self.call(verb, call, Some(&node)).await } }
                .boxed()
        };
        stream::iter(nodes).map(one).buffer_unordered(AT_ONCE).boxed()
    }
}

#[async_trait]
impl Provider for WorldProvider {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, kind: &ProfileType, _: Option<&str>) -> Option<Capabilities> {
        let head = match kind.to_string().as_str() {
            WORLD_NODE => false,
            WORLD_CLUSTER => true,
            _ => return None,
        };
        Some(fake::capabilities(head))
    }

    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        Some(self)
    }

    fn check_profile(&self, _: &Profile) -> Result<(), String> {
        Ok(())
    }

    fn operations(&self, _: &ProfileType) -> Vec<Operation> {
        fake::operations()
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let ids = nodes.iter().map(|node| node.id).collect();
        match self.request(&WorldRequest::Observe(target.cluster.id, ids)).await? {
            WorldAnswer::Observation(nodes) => Ok(Observed { nodes, ..Observed::default() }),
            other => Err(ProviderError::permanent("Nonsense", format!("the world answered {other:?}"))),
        }
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        let socket = self.socket.clone();
        let open = async move { lines::open(&socket, &WorldRequest::Changes).await.ok() };
        // There were no notifications before the connection, so that everything may have changed.
        let follow = |opened: Option<_>| match opened {
            None => stream::empty().boxed(),
            Some(answers) => stream::once(async { WorldChange::Everything })
                .chain(stream::unfold(answers, async |mut answers| match lines::next(&mut answers).await {
                    Ok(Some(WorldAnswer::Changed(cluster))) => Some((WorldChange::Cluster(cluster), answers)),
                    _ => None,
                }))
                .boxed(),
        };
        stream::once(open).flat_map(follow).boxed()
    }
}

#[async_trait]
impl NodeProvider for WorldProvider {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.each(Verb::Start, call, nodes)
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.each(Verb::Stop, call, nodes)
    }

    async fn update_node(
        &self,
        call: FencedCall<'_>,
        _: &Node,
        before: &Profile,
    ) -> Result<UpdateOutcome, ProviderError> {
        // As in real providers, an unchanged node needs no call.
        Ok(if before.id == call.profile.id { UpdateOutcome::InPlace } else { UpdateOutcome::MustRecreate })
    }

    async fn operate(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        _: &str,
        _: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), ProviderError> {
        self.call(Verb::Operate, call, Some(node)).await.map(drop)
    }

    async fn prepare_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.call(Verb::Create, call, None).await.map(drop)
    }

    async fn clear_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.call(Verb::Delete, call, None).await.map(drop)
    }
}
