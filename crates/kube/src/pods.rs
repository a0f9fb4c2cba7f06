//! Nodes that are single pods: Muster starts and stops each of them.

mod machines;
mod manifest;
mod start;
mod table;
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
    Capabilities, ClusterTarget, FencedCall, INVALID, LogQuery, Membership, NodeProvider, NodeResult,
    Observed, Provider, ProviderError, ProviderResource, WorldChange,
};
use muster_frameworks::kubernetes::POD;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::connect::Connection;
use crate::details::details;
use crate::facts::NodePod;
use crate::follow::{self, api_in};
use crate::installed::places;
use crate::logs::{self, Lines};
use crate::marks;
use crate::namespaces::Namespaces;
use crate::which::Certain;
use crate::write::Writer;
use manifest::PodRecipe;
use table::{OwnPod, Table, Tells};

/// The type whose nodes are pods.
const KUBERNETES_POD: &str = "kubernetes.pod";

/// Nodes that are started or stopped at the same time.
const AT_ONCE: usize = 16;

/// The pods that are nodes.
pub(crate) struct Pods {
    instance: InstanceId,
    namespaces: Arc<Namespaces>,
    client: Client,
    certain: Certain,
    writer: Writer,
    table: Arc<Table>,
    /// Held while the pod of a node is being created.
    creations: Arc<KeyedLock<NodeId>>,
    changes: broadcast::Sender<WorldChange>,
}

/// Whether nodes of a type are pods.
pub(crate) fn is_pod(kind: &ProfileType) -> bool {
    kind.name == KUBERNETES_POD && kind.version == "1.0"
}

/// What can be done with them.
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

impl Pods {
    /// Follows them until it is told to stop.
    pub(crate) fn follow(
        connection: &Connection,
        served: &[String],
        namespaces: Arc<Namespaces>,
        changes: broadcast::Sender<WorldChange>,
        stop: &CancellationToken,
    ) -> Self {
        let Connection { client, watch_client, instance, certain, fences, .. } = connection;
        let places = places(served);
        let table = Arc::new(Table::new(&places, certain.clone(), changes.clone()));
        for (index, namespace) in places.into_iter().enumerate() {
            let api = api_in(watch_client.clone(), namespace.as_deref());
            let tells = Tells { table: Arc::clone(&table), index, namespace };
            let follow = follow::run(api, marks::NODE, tells, stop.clone());
            tokio::spawn(certain.clone().then(follow, stop.clone()));
        }
        let (client, instance, certain) = (client.clone(), instance.clone(), certain.clone());
        let writer = Writer::new(client.clone(), fences.clone());
        let creations = Arc::default();
        Self { instance, namespaces, client, certain, writer, table, creations, changes }
    }
}

/// How nodes are, by their pods.
fn seen(nodes: &[Node], pods: &[Option<OwnPod>]) -> Observed {
    let seen = |(node, pod): (&Node, &Option<OwnPod>)| {
        (node.id, pod.as_ref().map_or(Observation::Absent, OwnPod::seen))
    };
    Observed { nodes: nodes.iter().zip(pods).map(seen).collect(), ..Observed::default() }
}

#[async_trait]
impl Provider for Pods {
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
        PodRecipe::of(profile).map(drop)
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        PodRecipe::of(profile).map_err(|why| ProviderError::permanent(INVALID, why))?;
        self.namespaces.check(manifest::namespace(profile, &cluster.namespace)).await
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        Ok(seen(nodes, &self.find_all(target, nodes).await?))
    }

    /// Nodes whose machines are not ready are not well.
    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let pods = self.find_all(target, nodes).await?;
        let mut observed = seen(nodes, &pods);
        let names = pods.iter().flatten().filter_map(|pod| pod.facts.machine.clone());
        let unready = machines::unready(&self.client, names.collect()).await;
        for (node, pod) in nodes.iter().zip(&pods) {
            let machine = pod.as_ref().and_then(|pod| pod.facts.machine.as_ref());
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
        let NodePod { name, machine, image, .. } = pod.facts;
        Ok(details(name, pod.namespace, machine, image))
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<Lines, ProviderError> {
        let gone = || ProviderError::permanent("NoLogs", format!("node '{}' has no pod any more", node.name));
        let pod = self.find(target, node).await?.ok_or_else(gone)?;
        let writer = logs::Writer {
            namespace: &pod.namespace,
            pod: &pod.facts.name,
            container: &pod.facts.container,
            machine: pod.facts.machine.as_deref(),
            reason: &pod.facts.reason,
        };
        logs::read(self.client.clone(), writer, query).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}

#[async_trait]
impl NodeProvider for Pods {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let started = stream::iter(nodes).map(move |node| async move {
            NodeResult { node: node.id, result: self.start_one(call, &node).await.map(Some) }
        });
        started.buffer_unordered(AT_ONCE).boxed()
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let stopped = stream::iter(nodes).map(move |node| async move {
            NodeResult { node: node.id, result: self.stop_one(call, &node).await.map(|()| None) }
        });
        stopped.buffer_unordered(AT_ONCE).boxed()
    }

    fn obstacles(&self, target: ClusterTarget<'_>, starting: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        let home = manifest::namespace(target.profile, &target.cluster.namespace);
        self.table.obstacles(starting, home)
    }

    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        let made = self.table.marked(&self.writer.fences)?;
        Ok(made.into_iter().map(ProviderResource::Node).collect())
    }

    async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        let ProviderResource::Node(node) = leftover else { return Ok(()) };
        for pod in self.table.marked_with(node, &self.writer.fences) {
            self.remove(&pod).await?;
        }
        Ok(())
    }

    async fn adopt(&self, _: &ProfileType, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        self.certain.check()?;
        let (namespace, name) = place(identity)?;
        let Some(pod) = self.writer.read(&POD, namespace, name).await? else {
            return Err(ProviderError::permanent("NotFound", format!("there is no pod '{identity}'")));
        };
        if !pod["metadata"]["labels"][marks::NODE].is_null() {
            return Err(ProviderError::permanent("Adopted", format!("pod '{identity}' is a node already")));
        }
        if let Some(owner) = pod["metadata"]["ownerReferences"].get(0) {
            let (kind, name) = (owner["kind"].as_str(), owner["name"].as_str());
            let owner = format!("{} '{}'", kind.unwrap_or_default(), name.unwrap_or_default());
            let message = format!(
                "pod '{identity}' is made by {owner}, which would make another one: it cannot be a node"
            );
            return Err(ProviderError::permanent("NotFree", message));
        }
        Ok(PodRecipe::of_pod(namespace, &pod).properties())
    }

    async fn take_in(&self, _: &ProfileType, identity: &str) -> Result<(), ProviderError> {
        let (namespace, name) = place(identity)?;
        let label = json!({"metadata": {"labels": {marks::NODE: marks::ADOPTED}}});
        self.writer.merge(&POD, namespace, name, &label).await
    }
}

/// Where a pod is, and what it is called there.
fn place(identity: &str) -> Result<(&str, &str), ProviderError> {
    identity.split_once('/').ok_or_else(|| {
        let message =
            format!("'{identity}' is no pod: its namespace and its name are expected, as in demo/fred");
        ProviderError::permanent("Invalid", message)
    })
}
