//! Instruments the calls that write objects of operators.

use std::sync::Arc;

use async_trait::async_trait;
use muster_core::change::ClusterUpdate;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;

use super::timer::CallTimers;
use crate::ports::provider::{
    ClusterTarget, DiscoveredCluster, FencedCall, MemberId, ObjectChange, OperatorProvider, ProviderError,
};

/// An operator provider whose calls are logged and counted.
pub(super) struct InstrumentedOperator {
    operator: Arc<dyn OperatorProvider>,
    timers: CallTimers,
}

impl InstrumentedOperator {
    pub(super) fn new(operator: Arc<dyn OperatorProvider>, timers: CallTimers) -> Self {
        Self { operator, timers }
    }
}

#[async_trait]
impl OperatorProvider for InstrumentedOperator {
    async fn create(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let timer = self.timers.begin("create", call.cluster, 0);
        timer.end(self.operator.create(call).await)
    }

    async fn delete(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let timer = self.timers.begin("delete", call.cluster, 0);
        timer.end(self.operator.delete(call).await)
    }

    async fn write(&self, call: FencedCall<'_>, change: ObjectChange<'_>) -> Result<(), ProviderError> {
        let timer = self.timers.begin("update", call.cluster, change.victims.len());
        timer.end(self.operator.write(call, change).await)
    }

    async fn differs(
        &self,
        after: ClusterTarget<'_>,
        before: &Cluster,
        update: &ClusterUpdate,
    ) -> Result<Option<bool>, ProviderError> {
        let timer = self.timers.begin("differs", after.cluster, 0);
        timer.end(self.operator.differs(after, before, update).await)
    }

    async fn settle(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let timer = self.timers.begin("settle", call.cluster, 0);
        timer.end(self.operator.settle(call).await)
    }

    async fn replace_members(&self, call: FencedCall<'_>, old: &[MemberId]) -> Result<(), ProviderError> {
        let timer = self.timers.begin("replace_members", call.cluster, old.len());
        timer.end(self.operator.replace_members(call, old).await)
    }

    fn discovered(&self) -> Vec<ClusterId> {
        self.operator.discovered()
    }

    fn disown(&self, id: ClusterId) {
        self.operator.disown(id);
    }

    async fn describe(&self, id: ClusterId) -> Result<Option<DiscoveredCluster>, ProviderError> {
        self.operator.describe(id).await
    }
}
