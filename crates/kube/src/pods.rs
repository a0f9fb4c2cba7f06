//! Nodes that are single pods, with individual membership: Muster starts and stops each of them.

mod adoption;
mod lifecycle;
mod machines;
mod manifest;
mod pod_cache;
#[cfg(test)]
mod sample;
mod unlisted;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::Client;
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, NodeId};
use muster_core::node::{Node, Observation};
use muster_core::profile::{Profile, ProfileType};
use muster_engine::ports::keyed_lock::KeyedLock;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, FencedCall, INVALID, LogLines, LogQuery, Membership, NodeProvider,
    NodeResult, Observed, Provider, ProviderError, ProviderResource, WorldChange,
};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::cluster_identity::IdentityGate;
use crate::connect::KubernetesConnection;
use crate::installed_flavors::watch_scopes;
use crate::logs::{self, LogSource};
use crate::namespaces::Namespaces;
use crate::pod_details::pod_details;
use crate::projection::NodePod;
use crate::watches::{self, typed_api};
use crate::writer::{ObjectWriter, REQUEST_DEADLINE};
use manifest::NodePodRecipe;
use pod_cache::{CachedPod, PodCache, PodCacheSink};

/// The profile type of nodes that are single pods.
const KUBERNETES_POD: &str = "kubernetes.pod";

/// The number of nodes that are started, stopped or read at the same time.
const MAX_CONCURRENT_NODES: usize = 16;

/// The provider of nodes that are pods.
pub(crate) struct PodProvider {
    instance: InstanceId,
    namespaces: Arc<Namespaces>,
    client: Client,
    identity_gate: IdentityGate,
    writer: ObjectWriter,
    cache: Arc<PodCache>,
    /// Locked while the pod of a node is being created.
    creations: Arc<KeyedLock<NodeId>>,
    changes: broadcast::Sender<WorldChange>,
}

/// Returns true if nodes of a type are pods.
pub(crate) fn is_pod(kind: &ProfileType) -> bool {
    kind.name == KUBERNETES_POD && kind.version == "1.0"
}

const CAPABILITIES: Capabilities = Capabilities {
    membership: Membership::Individual,
    head: false,
    workers_outlive_head: true,
    several_groups: false,
    orphans: true,
    choose_victims: true,
    update_in_place: false,
    heals_by_default: false,
    adopt: true,
    reports_activity: false,
    supports_placement: true,
    reports_machines: true,
};

impl PodProvider {
    /// Starts the watches, which end when `stop` is cancelled.
    pub(crate) fn start(
        connection: &KubernetesConnection,
        served: &[String],
        namespaces: Arc<Namespaces>,
        changes: broadcast::Sender<WorldChange>,
        stop: &CancellationToken,
    ) -> Self {
        let KubernetesConnection { client, watch_client, instance, identity_gate, fences, .. } = connection;
        let scopes = watch_scopes(served);
        let cache = Arc::new(PodCache::new(&scopes, identity_gate.clone(), changes.clone()));
        for (index, namespace) in scopes.into_iter().enumerate() {
            let api = typed_api(watch_client.clone(), namespace.as_deref());
            let sink = PodCacheSink { cache: Arc::clone(&cache), index, namespace };
            let watch = watches::run_watch(api, crate::ownership::NODE, sink, stop.clone());
            tokio::spawn(identity_gate.clone().run_once_confirmed(watch, stop.clone()));
        }
        let (client, instance, identity_gate) = (client.clone(), instance.clone(), identity_gate.clone());
        let writer = ObjectWriter::new(client.clone(), fences.clone());
        let creations = Arc::default();
        Self { instance, namespaces, client, identity_gate, writer, cache, creations, changes }
    }
}

/// Observes nodes by their pods.
fn observe_nodes(nodes: &[Node], pods: &[Option<CachedPod>]) -> Observed {
    let observation = |(node, pod): (&Node, &Option<CachedPod>)| {
        (node.id, pod.as_ref().map_or(Observation::Absent, CachedPod::observation))
    };
    Observed { nodes: nodes.iter().zip(pods).map(observation).collect(), ..Observed::default() }
}

#[async_trait]
impl Provider for PodProvider {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, _: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        flavor.is_none().then_some(CAPABILITIES)
    }

    fn orphan_type(&self) -> Option<ProfileType> {
        Some(ProfileType::new(KUBERNETES_POD, "1.0"))
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        NodePodRecipe::from_request(profile).map(drop)
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        NodePodRecipe::read(profile).map_err(|why| ProviderError::permanent(INVALID, why))?;
        self.namespaces.check(manifest::namespace(profile, &cluster.namespace)).await
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        Ok(observe_nodes(nodes, &self.find_all(target, nodes).await?))
    }

    /// Observes nodes, and counts those as ended whose machine is not ready.
    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let pods = self.find_all(target, nodes).await?;
        let mut observed = observe_nodes(nodes, &pods);
        let names = pods.iter().flatten().filter_map(|pod| pod.node_pod.machine.clone());
        let unready = machines::find_unready(&self.client, names.collect(), REQUEST_DEADLINE).await;
        for (node, pod) in nodes.iter().zip(&pods) {
            let machine = pod.as_ref().and_then(|pod| pod.node_pod.machine.as_ref());
            if let Some(why) = machine.and_then(|machine| unready.get(machine)) {
                observed.nodes.insert(node.id, Observation::Exited { reason: why.clone() });
                observed.machines.insert(node.id, why.clone());
            }
        }
        Ok(observed)
    }

    async fn details(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Map<String, Value>, ProviderError> {
        let Some(pod) = self.find(target, node).await? else { return Ok(Map::new()) };
        let NodePod { name, machine, image, .. } = pod.node_pod;
        Ok(pod_details(name, pod.namespace, machine, image))
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<LogLines, ProviderError> {
        let gone =
            || ProviderError::permanent("NoLogs", format!("the pod of node '{}' does not exist", node.name));
        let pod = self.find(target, node).await?.ok_or_else(gone)?;
        let source = LogSource {
            namespace: &pod.namespace,
            pod: &pod.node_pod.name,
            container: &pod.node_pod.container,
            machine: pod.node_pod.machine.as_deref(),
            reason: &pod.node_pod.reason,
        };
        logs::read_log(self.client.clone(), source, query).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}

#[async_trait]
impl NodeProvider for PodProvider {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let started = stream::iter(nodes).map(move |node| async move {
            NodeResult { node: node.id, result: self.start_one(call, &node).await.map(Some) }
        });
        started.buffer_unordered(MAX_CONCURRENT_NODES).boxed()
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let stopped = stream::iter(nodes).map(move |node| async move {
            NodeResult { node: node.id, result: self.stop_one(call, &node).await.map(|()| None) }
        });
        stopped.buffer_unordered(MAX_CONCURRENT_NODES).boxed()
    }

    fn obstacles(&self, target: ClusterTarget<'_>, starting: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        let home = manifest::namespace(target.profile, &target.cluster.namespace);
        self.cache.obstacles(starting, home)
    }

    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        let nodes = self.cache.nodes_with_pods(&self.writer.fences)?;
        Ok(nodes.into_iter().map(ProviderResource::Node).collect())
    }

    async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        let ProviderResource::Node(node) = leftover else { return Ok(()) };
        for pod in self.cache.pods_of(node, &self.writer.fences) {
            self.delete_pod(&pod).await?;
        }
        Ok(())
    }

    async fn adopt(&self, _: &ProfileType, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        self.read_adoptee(identity).await
    }

    async fn take_in(&self, _: &ProfileType, identity: &str) -> Result<(), ProviderError> {
        self.label_adoptee(identity).await
    }
}
