//! Nodes that are single pods: Muster starts and stops each of them.

mod machines;
mod manifest;
mod start;
mod table;

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::Client;
use muster_core::node::{Node, Seen};
use muster_core::profile::ProfileType;
use muster_engine::provider::{Call, Capabilities, Change, Membership, NodeResult, Observed, ProviderError};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub(crate) use manifest::PodRecipe;
pub(crate) use table::{OwnPod, Table};

use crate::follow;
use crate::marks;
use crate::write::Writer;

/// The type whose nodes are pods.
const KUBERNETES_POD: &str = "kubernetes.pod";

/// Nodes that are started or stopped at the same time.
const AT_ONCE: usize = 16;

/// The pods that are nodes.
pub(crate) struct Pods {
    client: Client,
    writer: Writer,
    table: Arc<Table>,
}

/// Whether nodes of a type are pods.
pub(crate) fn is_pod(kind: &ProfileType) -> bool {
    kind.name == KUBERNETES_POD && kind.version == "1.0"
}

/// What can be done with them.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    membership: Membership::Individual,
    head: false,
    workers_outlive_head: true,
    several_groups: false,
    orphans: true,
    choose_victims: true,
    update_in_place: false,
    heals_by_default: false,
    adopt: true,
    tells_activity: false,
};

impl Pods {
    /// Follows them until it is told to stop.
    pub(crate) fn follow(
        client: Client,
        places: Vec<Option<String>>,
        changes: broadcast::Sender<Change>,
        stop: &CancellationToken,
    ) -> Self {
        let table = Arc::new(Table::new(places.len(), changes));
        for (index, namespace) in places.into_iter().enumerate() {
            let (table, client) = (Arc::clone(&table), client.clone());
            tokio::spawn(follow::run_nodes(table, index, namespace, client, stop.clone()));
        }
        Self { writer: Writer::new(client.clone()), client, table }
    }

    /// Starts nodes, or waits for those that are starting.
    pub(crate) fn start<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let started = stream::iter(nodes).map(move |node| async move {
            NodeResult { node: node.id, result: self.start_one(call, &node).await.map(Some) }
        });
        started.buffer_unordered(AT_ONCE).boxed()
    }

    /// Stops nodes, and waits until they are gone.
    pub(crate) fn stop<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let stopped = stream::iter(nodes).map(move |node| async move {
            NodeResult { node: node.id, result: self.stop_one(call, &node).await.map(|()| None) }
        });
        stopped.buffer_unordered(AT_ONCE).boxed()
    }

    /// How nodes are.
    pub(crate) fn observe(&self, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let pods = self.table.of_all(nodes)?;
        let seen =
            |(node, pod): (&Node, Option<OwnPod>)| (node.id, pod.map_or(Seen::Absent, |pod| pod.seen()));
        Ok(Observed { nodes: nodes.iter().zip(pods).map(seen).collect(), ..Observed::default() })
    }

    /// The same, and nodes whose machines are not ready are not well.
    pub(crate) async fn check(&self, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let mut observed = self.observe(nodes)?;
        let pods = self.table.of_all(nodes)?;
        let names = pods.iter().flatten().filter_map(|pod| pod.facts.machine.clone());
        let unready = machines::unready(&self.client, names.collect()).await;
        for (node, pod) in nodes.iter().zip(&pods) {
            let machine = pod.as_ref().and_then(|pod| pod.facts.machine.as_ref());
            if let Some(why) = machine.and_then(|machine| unready.get(machine)) {
                observed.nodes.insert(node.id, Seen::Exited { reason: why.clone() });
            }
        }
        Ok(observed)
    }

    /// What a node is there, for people to look at.
    pub(crate) fn details(&self, node: &Node) -> Result<Map<String, Value>, ProviderError> {
        let Some(pod) = self.table.of(node)? else { return Ok(Map::new()) };
        let details = [
            ("pod", Some(pod.facts.name)),
            ("namespace", Some(pod.namespace)),
            ("machine", pod.facts.machine),
            ("image", Some(pod.facts.image)),
        ];
        let said = |(key, value): (&str, Option<String>)| Some((key.to_owned(), Value::from(value?)));
        Ok(details.into_iter().filter_map(said).collect())
    }

    /// Where the log of a node is: its namespace, pod and container.
    pub(crate) fn place(&self, node: &Node) -> Result<(String, String, String), ProviderError> {
        let gone = || ProviderError::permanent("NoLogs", format!("node '{}' has no pod any more", node.name));
        let pod = self.table.of(node)?.ok_or_else(gone)?;
        Ok((pod.namespace, pod.facts.name, pod.facts.container))
    }

    /// Takes a pod of others in: from here on it is followed.
    pub(crate) async fn adopt(&self, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        let Some((namespace, name)) = identity.split_once('/') else {
            let message =
                format!("'{identity}' is no pod: its namespace and its name are expected, as in demo/fred");
            return Err(ProviderError::permanent("Invalid", message));
        };
        let Some(pod) = self.writer.read(&manifest::POD, namespace, name).await? else {
            return Err(ProviderError::permanent("NotFound", format!("there is no pod '{identity}'")));
        };
        if !pod["metadata"]["labels"][marks::NODE].is_null() {
            return Err(ProviderError::permanent("Adopted", format!("pod '{identity}' is a node already")));
        }
        let label = json!({"metadata": {"labels": {marks::NODE: marks::ADOPTED}}});
        self.writer.merge(&manifest::POD, namespace, name, &label).await?;
        Ok(PodRecipe::of_pod(namespace, &pod).properties())
    }
}
