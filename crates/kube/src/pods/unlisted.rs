//! Pods that lost their label: the watch, which selects by that label, no longer lists them, but they are still nodes.
//!
//! Observing them only reads: one request for a pod that the watch stopped listing, with the answer cached. The label is
//! written back by the next action that starts or stops the node, under its fence.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_engine::ports::provider::{ClusterTarget, FencedCall, ProviderError};
use muster_frameworks::kubernetes::POD;
use serde_json::Value;

use super::table::{Lookup, OwnPod, PodRef};
use super::{AT_ONCE, Pods, manifest};
use crate::facts::LeanPod;
use crate::marks;

impl Pods {
    /// The pod of a node, if it has one. Writes nothing.
    pub(super) async fn find(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Option<OwnPod>, ProviderError> {
        Ok(self.find_all(target, std::slice::from_ref(node)).await?.pop().flatten())
    }

    /// The pods of nodes, in their order. Writes nothing.
    pub(super) async fn find_all(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<Vec<Option<OwnPod>>, ProviderError> {
        let home = manifest::namespace(target.profile, &target.cluster.namespace);
        let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        let mut lookups = self.table.look_up(nodes, home)?;
        if lookups.iter().any(Lookup::is_nothing) {
            // What is missing may be on its way, sent by an action that was cancelled.
            for (node, _) in ids.iter().zip(&lookups).filter(|(_, lookup)| lookup.is_nothing()) {
                drop(self.creations.lock(*node).await);
            }
            lookups = self.table.look_up(nodes, home)?;
        }
        let lookups: Vec<(NodeId, Lookup)> = ids.into_iter().zip(lookups).collect();
        let found = stream::iter(lookups).map(|(node, lookup)| async move {
            match lookup {
                Lookup::Known(pod) => Ok(pod.map(|pod| *pod)),
                Lookup::Unlisted(pod) => self.confirm(node, pod).await,
            }
        });
        found.buffered(AT_ONCE).try_collect().await
    }

    /// The pod of a node, listed by the watch: a lost label is written back first, so that the watch reports what
    /// becomes of the pod.
    pub(super) async fn find_listed(
        &self,
        call: FencedCall<'_>,
        node: &Node,
    ) -> Result<Option<OwnPod>, ProviderError> {
        let found = self.find(call.target(), node).await?;
        let Some(pod) = found.as_ref().filter(|pod| !pod.listed) else { return Ok(found) };
        let (namespace, name, uid) = (&pod.namespace, &pod.facts.name, &pod.facts.uid);
        tracing::warn!(node = %node.id, namespace, pod = name, "writing the pod's lost label back");
        match self.writer.label_node(namespace, name, uid, node.id, call.fence).await? {
            Some(body) => self.table.take(lean(body)?, false),
            None => self.table.confirm_gone(node.id, uid),
        }
        self.find(call.target(), node).await
    }

    /// Reads a pod that the watch does not list.
    async fn confirm(&self, node: NodeId, pod: PodRef) -> Result<Option<OwnPod>, ProviderError> {
        let read = self.writer.read(&POD, &pod.namespace, &pod.name).await?;
        let Some(mut body) = read.filter(|read| read["metadata"]["uid"] == *pod.uid) else {
            self.table.confirm_gone(node, &pod.uid);
            return Ok(None);
        };
        let label = node.to_string();
        if body["metadata"]["labels"][marks::NODE] == *label {
            // Listed by now: this read is ahead of the watch.
            self.table.take(lean(body)?, false);
            return Ok(self.table.listed(&pod));
        }
        // A node's pod without its label has the identity that it had with it.
        body["metadata"]["labels"][marks::NODE] = label.into();
        Ok(Some(self.table.confirm_unlisted(node, lean(body)?)))
    }
}

pub(super) fn lean(body: Value) -> Result<LeanPod, ProviderError> {
    serde_json::from_value(body)
        .map_err(|error| ProviderError::transient("Unknown", format!("unreadable pod: {error}")))
}
