//! Observation of members, each with its own profile.

use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};

use crate::ports::provider::{ClusterTarget, Observed, Provider, ProviderError};
use crate::run::ActionRun;

/// Observe or check health.
#[derive(Debug, Clone, Copy)]
enum ObserveMode {
    Observe,
    Check,
}

impl ObserveMode {
    async fn run(
        self,
        provider: &dyn Provider,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<Observed, ProviderError> {
        match self {
            Self::Observe => provider.observe(target, nodes).await,
            Self::Check => provider.check(target, nodes).await,
        }
    }
}

impl ActionRun {
    /// Observes all members, or one and the head that it may need.
    pub(crate) async fn observe(&self, only: Option<NodeId>) -> Result<Observed, ProviderError> {
        self.observe_with(only, ObserveMode::Observe).await
    }

    /// Checks the health of all members, or of one.
    pub(crate) async fn check_health(&self, only: Option<NodeId>) -> Result<Observed, ProviderError> {
        self.observe_with(only, ObserveMode::Check).await
    }

    async fn observe_with(&self, only: Option<NodeId>, how: ObserveMode) -> Result<Observed, ProviderError> {
        if only.is_none() && self.subject.has_one_profile() {
            return how.run(self.provider.as_ref(), self.target(), &self.subject.nodes).await;
        }
        let wanted = |node: &&Node| only.is_none_or(|only| node.id == only) || node.role == NodeRole::Head;
        let ids: Vec<NodeId> = self.subject.nodes.iter().filter(wanted).map(|node| node.id).collect();
        let mut all = Observed::default();
        for (profile, nodes) in self.subject.by_profile(&ids) {
            let target = ClusterTarget { profile: &profile, ..self.target() };
            let observed = how.run(self.provider.as_ref(), target, &nodes).await?;
            all.nodes.extend(observed.nodes);
            all.endpoints.extend(observed.endpoints);
        }
        Ok(all)
    }
}
