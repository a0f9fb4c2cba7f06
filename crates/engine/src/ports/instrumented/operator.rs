//! Instruments the calls that write objects of operators.

use std::sync::Arc;

use async_trait::async_trait;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::node::Node;

use super::timer::Timers;
use crate::ports::provider::{DiscoveredCluster, FencedCall, MemberId, OperatorProvider, ProviderError};

/// An operator provider whose calls are logged and counted.
pub(super) struct InstrumentedOperator {
    operator: Arc<dyn OperatorProvider>,
    timers: Timers,
}

impl InstrumentedOperator {
    pub(super) fn new(operator: Arc<dyn OperatorProvider>, timers: Timers) -> Self {
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

    async fn write(
        &self,
        call: FencedCall<'_>,
        before: &Cluster,
        resized: &[String],
        victims: &[Node],
    ) -> Result<(), ProviderError> {
        let timer = self.timers.begin("update", call.cluster, victims.len());
        timer.end(self.operator.write(call, before, resized, victims).await)
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
