//! A provider whose world is in memory: it records its calls, checks fences, and fails on command.

mod tasks;
mod world;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use muster_core::capacity::Capacity;
use muster_core::ids::InstanceId;
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use muster_engine::ports::images::ImageBuilder;
use muster_engine::ports::jobs::JobRunner;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, FencedCall, Membership, NodeProvider, NodeResult, Observed, Operation,
    Provider, ProviderError, ProviderResource, RECREATE, WorldChange,
};

pub use tasks::MISSING_COMMAND;
pub use world::{Entry, Verb, World};

/// Nodes without a head, started one by one.
pub const FAKE_NODE: &str = "fake.node-1.0";

/// Nodes without a head that can be placed.
pub const FAKE_PLACED: &str = "fake.placed-1.0";

/// Workers with a head that they cannot outlive, healed by default.
pub const FAKE_CLUSTER: &str = "fake.cluster-1.0";

/// A provider over a [`World`].
pub struct Fake {
    instance: InstanceId,
    world: Arc<World>,
}

impl Fake {
    /// Creates a provider of the instance `fake:test`. Several providers can share a world, as engines share a machine.
    pub fn new(world: &Arc<World>) -> Self {
        Self { instance: Self::instance_id(), world: Arc::clone(world) }
    }

    /// The instance of all fakes.
    pub fn instance_id() -> InstanceId {
        InstanceId::new("fake", "test")
    }

    fn each<'a>(&'a self, verb: Verb, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let one = move |node: Node| {
            async move { NodeResult { node: node.id, result: self.world.act(verb, call, &node).await } }
                .boxed()
        };
        // Concurrency is bounded, as in real providers.
        stream::iter(nodes).map(one).buffer_unordered(16).boxed()
    }
}

#[async_trait]
impl Provider for Fake {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, kind: &ProfileType, _: Option<&str>) -> Option<Capabilities> {
        match kind.to_string().as_str() {
            FAKE_NODE => Some(capabilities(false)),
            FAKE_PLACED => Some(Capabilities { supports_placement: true, ..capabilities(false) }),
            FAKE_CLUSTER => Some(capabilities(true)),
            _ => None,
        }
    }

    fn orphan_type(&self) -> Option<ProfileType> {
        FAKE_NODE.parse().ok()
    }

    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        Some(self)
    }

    fn image_builder(self: Arc<Self>) -> Option<Arc<dyn ImageBuilder>> {
        Some(self)
    }

    fn job_runner(self: Arc<Self>) -> Option<Arc<dyn JobRunner>> {
        Some(self)
    }

    fn check_profile(&self, _: &Profile) -> Result<(), String> {
        Ok(())
    }

    async fn admit(&self, _: &Profile, _: Option<&str>) -> Result<(), ProviderError> {
        self.world.refusal()
    }

    fn operations(&self, _: &ProfileType) -> Vec<Operation> {
        operations()
    }

    fn recoveries(&self, _: &ProfileType) -> &'static [&'static str] {
        &["REBOOT", RECREATE]
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.world.observe(target, nodes).await
    }

    fn capacity(&self) -> Option<Capacity> {
        self.world.capacity()
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        self.world.activity(target).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        self.world.changes()
    }
}

#[async_trait]
impl NodeProvider for Fake {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.each(Verb::Start, call, nodes)
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.each(Verb::Stop, call, nodes)
    }

    async fn operate(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        _: &str,
        _: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), ProviderError> {
        self.world.operate(call, node).await
    }

    async fn prepare_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.world.touch(Verb::Create, call).await
    }

    async fn clear_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.world.touch(Verb::Delete, call).await
    }

    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        Ok(self.world.running().into_iter().map(ProviderResource::Node).collect())
    }

    async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        self.world.remove(leftover);
        Ok(())
    }
}

/// The operations of the node types for tests.
pub(crate) fn operations() -> Vec<Operation> {
    let (description, parameters) = ("Turns it off and on again.", muster_core::spec::Schema(&[]));
    vec![Operation { name: "reboot", description, parameters }]
}

/// The capabilities of the types for tests: workers of a type with a head cannot outlive the head and are healed; nodes
/// of a type without one may be orphans.
pub(crate) const fn capabilities(head: bool) -> Capabilities {
    Capabilities {
        membership: Membership::Individual,
        head,
        workers_outlive_head: false,
        several_groups: true,
        orphans: !head,
        choose_victims: true,
        update_in_place: false,
        heals_by_default: head,
        adopt: false,
        reports_activity: true,
        supports_placement: false,
        reports_machines: false,
    }
}
