//! Pods that lost their label: the watch, which selects by that label, no longer lists them, but they are still nodes.
//!
//! An observation reads such a pod, and caches the answer. The next action that starts or stops the node writes the
//! label again, under its fence.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_engine::ports::provider::{ClusterTarget, FencedCall, ProviderError};
use muster_frameworks::kubernetes::POD;
use serde_json::Value;

use super::pod_cache::{CachedPod, Lookup, PodRef};
use super::{MAX_CONCURRENT_NODES, PodProvider, manifest};
use crate::ownership;
use crate::projection::LeanPod;

impl PodProvider {
    /// Finds the pod of a node, if it has one. Writes nothing.
    pub(super) async fn find(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Option<CachedPod>, ProviderError> {
        Ok(self.find_all(target, std::slice::from_ref(node)).await?.pop().flatten())
    }

    /// Finds the pods of nodes, in the order of the nodes. Writes nothing.
    pub(super) async fn find_all(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<Vec<Option<CachedPod>>, ProviderError> {
        let home = manifest::namespace(target.profile, &target.cluster.namespace);
        let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        let mut lookups = self.cache.look_up(nodes, home)?;
        if lookups.iter().any(Lookup::is_absent) {
            // A cancelled action may have sent a creation that has not ended.
            for (node, _) in ids.iter().zip(&lookups).filter(|(_, lookup)| lookup.is_absent()) {
                drop(self.creations.lock(*node).await);
            }
            lookups = self.cache.look_up(nodes, home)?;
        }
        let lookups: Vec<(NodeId, Lookup)> = ids.into_iter().zip(lookups).collect();
        let found = stream::iter(lookups).map(|(node, lookup)| async move {
            match lookup {
                Lookup::Known(pod) => Ok(pod.map(|pod| *pod)),
                Lookup::Unlisted(pod) => self.confirm(node, pod).await,
            }
        });
        found.buffered(MAX_CONCURRENT_NODES).try_collect().await
    }

    /// Finds the pod of a node, and restores its label if it was lost, so that the watch reports the pod.
    pub(super) async fn find_listed(
        &self,
        call: FencedCall<'_>,
        node: &Node,
    ) -> Result<Option<CachedPod>, ProviderError> {
        let found = self.find(call.target(), node).await?;
        let Some(pod) = found.as_ref().filter(|pod| !pod.listed) else { return Ok(found) };
        let (namespace, name, uid) = (&pod.namespace, &pod.node_pod.name, &pod.node_pod.uid);
        tracing::warn!(node = %node.id, namespace, pod = name, "restoring the lost label of a pod");
        match self.writer.label_node(namespace, name, uid, node.id, call.fence).await? {
            Some(body) => self.cache.apply_written(parse_pod(body)?, false),
            None => self.cache.confirm_gone(node.id, uid),
        }
        self.find(call.target(), node).await
    }

    /// Reads a pod that the watch does not list.
    async fn confirm(&self, node: NodeId, pod: PodRef) -> Result<Option<CachedPod>, ProviderError> {
        let read = self.writer.read_object(&POD, &pod.namespace, &pod.name).await?;
        let Some(mut body) = read.filter(|read| read["metadata"]["uid"] == *pod.uid) else {
            self.cache.confirm_gone(node, &pod.uid);
            return Ok(None);
        };
        let label = node.to_string();
        if body["metadata"]["labels"][ownership::NODE] == *label {
            // The label was restored: this read is newer than the last report of the watch.
            self.cache.apply_written(parse_pod(body)?, false);
            return Ok(self.cache.listed(&pod));
        }
        // Parsed as if the label was not lost: only with it, the identity of the pod includes the UID.
        body["metadata"]["labels"][ownership::NODE] = label.into();
        Ok(Some(self.cache.confirm_unlisted(node, parse_pod(body)?)))
    }
}

pub(super) fn parse_pod(body: Value) -> Result<LeanPod, ProviderError> {
    serde_json::from_value(body)
        .map_err(|error| ProviderError::transient("Unknown", format!("unreadable pod: {error}")))
}
