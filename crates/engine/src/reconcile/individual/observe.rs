//! Observation of members, each with its own profile.

use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};

use crate::ports::provider::{ClusterTarget, Observed, Provider, ProviderError};
use crate::run::Subject;

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

/// Observes all members, or one and the head that it may need.
pub(crate) async fn observe(
    provider: &dyn Provider,
    subject: &Subject,
    only: Option<NodeId>,
) -> Result<Observed, ProviderError> {
    observe_with(ObserveMode::Observe, provider, subject, only).await
}

/// Checks the health of all members, or of one.
pub(crate) async fn check_health(
    provider: &dyn Provider,
    subject: &Subject,
    only: Option<NodeId>,
) -> Result<Observed, ProviderError> {
    observe_with(ObserveMode::Check, provider, subject, only).await
}

async fn observe_with(
    mode: ObserveMode,
    provider: &dyn Provider,
    subject: &Subject,
    only: Option<NodeId>,
) -> Result<Observed, ProviderError> {
    if only.is_none() && subject.has_one_profile() {
        return mode.run(provider, subject.as_target(), subject.nodes.as_slice()).await;
    }
    let wanted = |node: &&Node| only.is_none_or(|only| node.id == only) || node.role == NodeRole::Head;
    let ids: Vec<NodeId> = subject.nodes.iter().filter(wanted).map(|node| node.id).collect();
    let mut all = Observed::default();
    for (profile, nodes) in subject.by_profile(&ids) {
        let target = ClusterTarget { profile: &profile, ..subject.as_target() };
        let observed = mode.run(provider, target, &nodes).await?;
        all.nodes.extend(observed.nodes);
        all.endpoints.extend(observed.endpoints);
        all.versions = observed.versions.or(all.versions);
    }
    Ok(all)
}
