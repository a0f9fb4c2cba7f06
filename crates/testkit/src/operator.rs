//! A provider whose members are created by an operator in memory, which converges on its own and fails on command.

mod apps;
mod state;
mod world;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::change::ClusterUpdate;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId};
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use muster_engine::ports::provider::{
    AppProvider, Capabilities, ClusterTarget, FencedCall, MemberId, Membership, ObjectChange, Observed,
    OperatorCapabilities, OperatorProvider, Provider, ProviderError, WorldChange,
};

pub use apps::FakeApps;
pub use state::{OperatorCall, Verb};
pub use world::{ObservationFault, OperatorWorld};

/// Workers with a head, of an operator that supports every change.
pub const OPERATED_CLUSTER: &str = "operated.cluster-1.0";

/// Workers without a head, of an operator that only keeps their number.
pub const PLAIN_OPERATED: &str = "operated.plain-1.0";

/// The flavor whose operator recreates members when their recipe changes.
pub const ROLLING: &str = "rolling";

/// A provider over an [`OperatorWorld`].
pub struct Operated {
    instance: InstanceId,
    world: Arc<OperatorWorld>,
}

impl Operated {
    /// Creates a provider of the instance `operated:test` over this world. Several providers can share a world, as
    /// engines share a server.
    pub fn new(world: &Arc<OperatorWorld>) -> Self {
        Self { instance: Self::instance_id(), world: Arc::clone(world) }
    }

    /// The instance of all these providers.
    pub fn instance_id() -> InstanceId {
        InstanceId::new("operated", "test")
    }
}

#[async_trait]
impl Provider for Operated {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        let able = match kind.to_string().as_str() {
            OPERATED_CLUSTER => true,
            PLAIN_OPERATED => false,
            _ => return None,
        };
        let rolls = flavor == Some(ROLLING);
        let operator = OperatorCapabilities { replaces_head: able, rolls, replaces_workers: able };
        Some(Capabilities {
            membership: Membership::Delegated(operator),
            head: able,
            workers_outlive_head: false,
            several_groups: able,
            orphans: false,
            choose_victims: able,
            update_in_place: able,
            heals_by_default: false,
            adopt: false,
            reports_activity: false,
            supports_placement: false,
            reports_machines: false,
        })
    }

    fn app_provider(self: Arc<Self>) -> Option<Arc<dyn AppProvider>> {
        Some(Arc::clone(&self.world.apps) as Arc<dyn AppProvider>)
    }

    fn operator_provider(self: Arc<Self>) -> Option<Arc<dyn OperatorProvider>> {
        Some(self)
    }

    fn check_profile(&self, _: &Profile) -> Result<(), String> {
        Ok(())
    }

    async fn observe(&self, target: ClusterTarget<'_>, _: &[Node]) -> Result<Observed, ProviderError> {
        self.world.observe(target).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        self.world.changes()
    }
}

#[async_trait]
impl OperatorProvider for Operated {
    async fn create(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.world.call(Verb::Create, call, |state| Ok(state.create(call.cluster, call.fence))).await
    }

    async fn delete(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.world.call(Verb::Delete, call, |state| Ok(state.delete(call.cluster.id))).await
    }

    async fn write(&self, call: FencedCall<'_>, change: ObjectChange<'_>) -> Result<(), ProviderError> {
        let ObjectChange { before, victims, .. } = change;
        let rolls = call.cluster.flavor.as_deref() == Some(ROLLING);
        self.world.call(Verb::Update, call, |state| state.update(call, before, victims, rolls)).await
    }

    async fn differs(
        &self,
        _: ClusterTarget<'_>,
        _: &Cluster,
        _: &ClusterUpdate,
    ) -> Result<Option<bool>, ProviderError> {
        Ok(self.world.differs())
    }

    async fn settle(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.world.call(Verb::Settle, call, |state| state.settle(call.cluster.id)).await
    }

    async fn replace_members(&self, call: FencedCall<'_>, old: &[MemberId]) -> Result<(), ProviderError> {
        self.world.call(Verb::RestartHead, call, |state| state.replace(call.cluster.id, old)).await
    }

    fn discovered(&self) -> Vec<ClusterId> {
        self.world.discovered()
    }
}
