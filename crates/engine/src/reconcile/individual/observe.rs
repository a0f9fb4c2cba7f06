//! Observation of members, each with its own profile.

use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};

use crate::ports::provider::{ClusterTarget, Observed, Provider, ProviderError};
use crate::run::RunSubject;

/// The provider call of an observation: to observe nodes, or to check their health.
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

/// Observes all members, or one member and the head, which has to run before workers start.
pub(crate) async fn observe(
    provider: &dyn Provider,
    subject: &RunSubject,
    only: Option<NodeId>,
) -> Result<Observed, ProviderError> {
    observe_with(ObserveMode::Observe, provider, subject, only).await
}

/// Checks the health of all members, or of one member and the head.
pub(crate) async fn check_health(
    provider: &dyn Provider,
    subject: &RunSubject,
    only: Option<NodeId>,
) -> Result<Observed, ProviderError> {
    observe_with(ObserveMode::Check, provider, subject, only).await
}

async fn observe_with(
    mode: ObserveMode,
    provider: &dyn Provider,
    subject: &RunSubject,
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
        all.merge(mode.run(provider, target, &nodes).await?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use futures::StreamExt as _;
    use futures::stream::{self, BoxStream};
    use muster_core::ids::{InstanceId, ProfileId};
    use muster_core::profile::{Profile, ProfileType};
    use muster_core::sample;
    use uuid::Uuid;

    use super::*;
    use crate::ports::provider::{Capabilities, Membership, WorldChange};
    use crate::run::sample::subject;

    /// A provider that reports every machine as unhealthy.
    struct BrokenMachines(InstanceId);

    #[async_trait]
    impl Provider for BrokenMachines {
        fn instance(&self) -> &InstanceId {
            &self.0
        }

        fn capabilities(&self, _: &ProfileType, _: Option<&str>) -> Option<Capabilities> {
            None
        }

        fn check_profile(&self, _: &Profile) -> Result<(), String> {
            Ok(())
        }

        async fn observe(&self, _: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
            let machines = nodes.iter().map(|node| (node.id, "not ready".to_owned())).collect();
            Ok(Observed { machines, ..Observed::default() })
        }

        fn changes(&self) -> BoxStream<'static, WorldChange> {
            stream::empty().boxed()
        }
    }

    #[tokio::test]
    async fn the_machines_of_nodes_with_other_profiles_are_observed_too() {
        let other = Profile { id: ProfileId::from_uuid(Uuid::from_u128(9)), ..sample::profile() };
        let nodes = vec![sample::node(1), Node { profile_id: other.id, ..sample::node(2) }];
        let ids = [nodes[0].id, nodes[1].id];
        let mut subject = subject(nodes, Membership::Individual);
        subject.profiles.insert(other.id, other);
        let provider = BrokenMachines(InstanceId::new("broken", "test"));
        let observed = check_health(&provider, &subject, None).await.expect("it answers");
        assert!(ids.iter().all(|id| observed.machines.contains_key(id)), "{:?}", observed.machines);
    }
}
