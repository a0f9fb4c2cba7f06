//! The provider `simulated`: nodes that exist only as rows, for tests, demos and benchmarks.
//!
//! Observations are computed from the rows and there is no other state, so any `--dev` server can serve them.

mod operations;
mod properties;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_core::ids::InstanceId;
use muster_core::limits::Activity;
use muster_core::node::{Node, NodeStatus, Observation};
use muster_core::profile::{Profile, ProfileType};
use muster_engine::ports::clock::Clock;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, FencedCall, Membership, NodeProvider, NodeResult, Observed, Operation,
    Provider, ProviderError, RECREATE, UpdateOutcome, WorldChange,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use properties::{SimulatedFailure, SimulatedProperties, SimulatedUse};

/// The name of the profile type of simulated nodes.
pub const SIMULATED_NODE: &str = "simulated.node";

/// The version of the profile type.
const VERSION: &str = "1.0";

/// The provider of simulated nodes.
pub struct SimulatedProvider<C> {
    instance: InstanceId,
    clock: C,
}

impl<C: Clock> SimulatedProvider<C> {
    /// Creates the simulated instance of a database.
    pub fn new(database_id: &str, clock: C) -> Self {
        Self { instance: InstanceId::new("simulated", database_id), clock }
    }

    /// Returns the time until a node has started, counted from its recorded start: after a take-over, the other server
    /// waits no longer.
    fn remaining_wait(&self, node: &Node, properties: &SimulatedProperties) -> Duration {
        let begun = node.starts.last().copied().unwrap_or(node.init_at);
        let waited: Duration = self.clock.now().since(begun).into();
        properties.wait.saturating_sub(waited)
    }
}

/// Returns the physical id of a node, which is the same for repeated calls of one start and changes with the next
/// start.
fn physical_id(node: &Node) -> String {
    let start = node.starts.last().map_or(0, |start| start.micros());
    let name: Vec<u8> = node.id.as_uuid().as_bytes().iter().copied().chain(start.to_be_bytes()).collect();
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &name).to_string()
}

fn simulated_failure(what: &str) -> ProviderError {
    ProviderError::permanent(
        "SimulatedFailure",
        format!("the profile says that {what} fails (simulated_failure)"),
    )
}

#[async_trait]
impl<C: Clock + 'static> Provider for SimulatedProvider<C> {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, kind: &ProfileType, _: Option<&str>) -> Option<Capabilities> {
        (kind.name == SIMULATED_NODE && kind.version == VERSION).then_some(Capabilities {
            membership: Membership::Individual,
            head: false,
            workers_outlive_head: true,
            several_groups: true,
            orphans: true,
            choose_victims: true,
            update_in_place: true,
            heals_by_default: false,
            adopt: true,
            reports_activity: true,
            supports_placement: false,
            reports_machines: false,
        })
    }

    fn orphan_type(&self) -> Option<ProfileType> {
        Some(ProfileType::new(SIMULATED_NODE, VERSION))
    }

    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        Some(self)
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        SimulatedProperties::from_profile(profile).map(drop)
    }

    fn operations(&self, _: &ProfileType) -> Vec<Operation> {
        operations::ALL.to_vec()
    }

    fn recoveries(&self, _: &ProfileType) -> &'static [&'static str] {
        &["REBOOT", "REBUILD", RECREATE]
    }

    async fn details(&self, _: ClusterTarget<'_>, node: &Node) -> Result<Map<String, Value>, ProviderError> {
        Ok(operations::details(node))
    }

    async fn observe(&self, _: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let observe_node = |node: &Node| {
            let observation = match (&node.physical_id, node.status) {
                (Some(physical_id), _) => Observation::Running { physical_id: physical_id.clone() },
                (None, NodeStatus::Creating | NodeStatus::Recovering) => {
                    Observation::Starting { physical_id: None }
                }
                (None, _) => Observation::Absent,
            };
            (node.id, observation)
        };
        Ok(Observed {
            nodes: nodes.iter().map(observe_node).collect::<HashMap<_, _>>(),
            ..Observed::default()
        })
    }

    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let mut observed = self.observe(target, nodes).await?;
        let failure =
            SimulatedProperties::from_profile(target.profile).ok().and_then(|properties| properties.failure);
        if failure == Some(SimulatedFailure::Check) {
            for observation in observed
                .nodes
                .values_mut()
                .filter(|observation| matches!(observation, Observation::Running { .. }))
            {
                let reason = "the profile says that it fails (simulated_failure)".to_owned();
                *observation = Observation::Exited { reason };
            }
        }
        Ok(observed)
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let begun = target.cluster.created_at.unwrap_or(target.cluster.init_at);
        let properties = SimulatedProperties::from_profile(target.profile).unwrap_or_default();
        Ok(match properties.activity {
            None => Activity::IdleSince(begun),
            Some(SimulatedUse::Busy) => Activity::Busy,
            Some(SimulatedUse::Unknown) => Activity::Unknown,
        })
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        // Rows change only by actions, which notify the engine themselves.
        stream::pending().boxed()
    }
}

#[async_trait]
impl<C: Clock> NodeProvider for SimulatedProvider<C> {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let properties = match SimulatedProperties::from_profile(call.profile) {
            Ok(properties) => properties,
            Err(why) => {
                return same_result_for_all(nodes, &Err(ProviderError::permanent("InvalidProfile", why)));
            }
        };
        if properties.failure == Some(SimulatedFailure::Create) {
            return same_result_for_all(nodes, &Err(simulated_failure("creation")));
        }
        let longest =
            nodes.iter().map(|node| self.remaining_wait(node, &properties)).max().unwrap_or_default();
        let up = |node: Node| NodeResult { node: node.id, result: Ok(Some(physical_id(&node))) };
        if longest.is_zero() {
            return stream::iter(nodes).map(up).boxed();
        }
        stream::once(tokio::time::sleep(longest))
            .flat_map(move |()| stream::iter(nodes.clone()).map(up))
            .boxed()
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let failure =
            SimulatedProperties::from_profile(call.profile).ok().and_then(|properties| properties.failure);
        let result = if failure == Some(SimulatedFailure::Delete) {
            Err(simulated_failure("deletion"))
        } else {
            Ok(None)
        };
        same_result_for_all(nodes, &result)
    }

    async fn update_node(
        &self,
        call: FencedCall<'_>,
        _: &Node,
        _: &Profile,
    ) -> Result<UpdateOutcome, ProviderError> {
        let failure =
            SimulatedProperties::from_profile(call.profile).ok().and_then(|properties| properties.failure);
        if failure == Some(SimulatedFailure::Update) {
            Err(simulated_failure("an update"))
        } else {
            Ok(UpdateOutcome::InPlace)
        }
    }

    async fn operate(
        &self,
        call: FencedCall<'_>,
        _: &Node,
        operation: &str,
        _: &Map<String, Value>,
    ) -> Result<(), ProviderError> {
        operations::perform(&call.profile.kind, operation)
    }

    async fn adopt(&self, _: &ProfileType, _: &str) -> Result<Map<String, Value>, ProviderError> {
        // Every identity counts as an existing node.
        Ok(operations::adopted())
    }
}

fn same_result_for_all(
    nodes: Vec<Node>,
    result: &Result<Option<String>, ProviderError>,
) -> BoxStream<'static, NodeResult> {
    let result = result.clone();
    stream::iter(nodes).map(move |node| NodeResult { node: node.id, result: result.clone() }).boxed()
}

#[cfg(test)]
mod tests;
