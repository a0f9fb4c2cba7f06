//! Nodes that cost nothing, for tests, demos and benchmarks.
//!
//! Their world is a function of the rows: nothing else remembers them, so any `--dev` server can serve them.

mod operations;
mod properties;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_core::cluster::Cluster;
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

use properties::{Failure, Properties, Use};

/// The name of the profile type.
pub const SIMULATED_NODE: &str = "simulated.node";

/// The version of the profile type.
const VERSION: &str = "1.0";

/// The provider of simulated nodes.
pub struct Simulated<C> {
    instance: InstanceId,
    clock: C,
}

impl<C: Clock> Simulated<C> {
    /// The simulated instance of a database.
    pub fn new(database_id: &str, clock: C) -> Self {
        Self { instance: InstanceId::new("simulated", database_id), clock }
    }

    /// How long a node still takes to come up: its wait counts from its last start, whoever made that.
    fn still_to_wait(&self, node: &Node, properties: &Properties) -> Duration {
        let begun = node.starts.last().copied().unwrap_or(node.init_at);
        let waited: Duration = self.clock.now().since(begun).into();
        properties.wait.saturating_sub(waited)
    }
}

/// The same start of a node makes the same thing, whoever asks; another start makes another.
fn physical_id(node: &Node) -> String {
    let start = node.starts.last().map_or(0, |start| start.micros());
    let name: Vec<u8> = node.id.as_uuid().as_bytes().iter().copied().chain(start.to_be_bytes()).collect();
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &name).to_string()
}

fn fails(what: &str) -> ProviderError {
    ProviderError::permanent(
        "SimulatedFailure",
        format!("the profile says that {what} fails (simulated_failure)"),
    )
}

#[async_trait]
impl<C: Clock + 'static> Provider for Simulated<C> {
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
        Properties::of(profile).map(drop)
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
        let look = |node: &Node| {
            let seen = match (&node.physical_id, node.status) {
                (Some(physical_id), _) => Observation::Running { physical_id: physical_id.clone() },
                (None, NodeStatus::Creating | NodeStatus::Recovering) => {
                    Observation::Starting { physical_id: None }
                }
                (None, _) => Observation::Absent,
            };
            (node.id, seen)
        };
        Ok(Observed { nodes: nodes.iter().map(look).collect::<HashMap<_, _>>(), ..Observed::default() })
    }

    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let mut observed = self.observe(target, nodes).await?;
        let failure = Properties::of(target.profile).ok().and_then(|properties| properties.failure);
        if failure == Some(Failure::Check) {
            for seen in observed.nodes.values_mut().filter(|seen| matches!(seen, Observation::Running { .. }))
            {
                let reason = "the profile says that it fails (simulated_failure)".to_owned();
                *seen = Observation::Exited { reason };
            }
        }
        Ok(observed)
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let begun = target.cluster.created_at.unwrap_or(target.cluster.init_at);
        let properties = Properties::of(target.profile).unwrap_or_default();
        Ok(match properties.activity {
            None => Activity::IdleSince(begun),
            Some(Use::Busy) => Activity::Busy,
            Some(Use::Unknown) => Activity::Unknown,
        })
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        // Rows change only by actions, and those need not be told.
        stream::pending().boxed()
    }
}

#[async_trait]
impl<C: Clock> NodeProvider for Simulated<C> {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let properties = match Properties::of(call.profile) {
            Ok(properties) => properties,
            Err(why) => return all(nodes, &Err(ProviderError::permanent("InvalidProfile", why))),
        };
        if properties.failure == Some(Failure::Create) {
            return all(nodes, &Err(fails("creation")));
        }
        let longest =
            nodes.iter().map(|node| self.still_to_wait(node, &properties)).max().unwrap_or_default();
        let up = |node: Node| NodeResult { node: node.id, result: Ok(Some(physical_id(&node))) };
        if longest.is_zero() {
            return stream::iter(nodes).map(up).boxed();
        }
        stream::once(tokio::time::sleep(longest))
            .flat_map(move |()| stream::iter(nodes.clone()).map(up))
            .boxed()
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let failure = Properties::of(call.profile).ok().and_then(|properties| properties.failure);
        let result = if failure == Some(Failure::Delete) { Err(fails("deletion")) } else { Ok(None) };
        all(nodes, &result)
    }

    async fn update_node(
        &self,
        call: FencedCall<'_>,
        _: &Node,
        _: &Profile,
    ) -> Result<UpdateOutcome, ProviderError> {
        let failure = Properties::of(call.profile).ok().and_then(|properties| properties.failure);
        if failure == Some(Failure::Update) { Err(fails("an update")) } else { Ok(UpdateOutcome::InPlace) }
    }

    async fn operate(
        &self,
        call: FencedCall<'_>,
        _: &Node,
        operation: &str,
        _: &Map<String, Value>,
    ) -> Result<(), ProviderError> {
        operations::run(&call.profile.kind, operation)
    }

    async fn update_cluster(&self, call: FencedCall<'_>, _: &Cluster) -> Result<(), ProviderError> {
        let failure = Properties::of(call.profile).ok().and_then(|properties| properties.failure);
        if failure == Some(Failure::Update) { Err(fails("an update")) } else { Ok(()) }
    }

    async fn adopt(&self, _: &ProfileType, _: &str) -> Result<Map<String, Value>, ProviderError> {
        // Whatever it is called, it is there.
        Ok(operations::adopted())
    }
}

fn all(nodes: Vec<Node>, result: &Result<Option<String>, ProviderError>) -> BoxStream<'static, NodeResult> {
    let result = result.clone();
    stream::iter(nodes).map(move |node| NodeResult { node: node.id, result: result.clone() }).boxed()
}

#[cfg(test)]
mod tests;
