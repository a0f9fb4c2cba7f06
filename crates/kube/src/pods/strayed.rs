//! Pods of ours whose mark others took away: they are no less ours, and nobody else would remove them.

use muster_core::node::Node;
use muster_engine::ports::provider::ProviderError;
use muster_frameworks::kubernetes::POD;
use serde_json::{Value, json};

use super::Pods;
use super::table::OwnPod;
use crate::facts::LeanPod;
use crate::marks;

impl Pods {
    /// The pod of a node, if it has one.
    pub(super) async fn find(&self, node: &Node) -> Result<Option<OwnPod>, ProviderError> {
        Ok(self.find_all(std::slice::from_ref(node)).await?.into_iter().next().flatten())
    }

    /// The pods of nodes, in their order.
    pub(super) async fn find_all(&self, nodes: &[Node]) -> Result<Vec<Option<OwnPod>>, ProviderError> {
        let mut pods = self.table.of_all(nodes)?;
        for (node, pod) in nodes.iter().zip(&mut pods).filter(|(_, pod)| pod.is_none()) {
            *pod = self.strayed(node).await?;
        }
        Ok(pods)
    }

    /// The pod that a node's row knows, if it is there without its mark: that is written again.
    async fn strayed(&self, node: &Node) -> Result<Option<OwnPod>, ProviderError> {
        let Some((namespace, name, uid)) = made(node) else { return Ok(None) };
        let same = |pod: &Value| pod["metadata"]["uid"] == uid;
        let Some(mut pod) = self.writer.read(&POD, namespace, name).await?.filter(same) else {
            return Ok(None);
        };
        let id = node.id.to_string();
        tracing::warn!(
            node = id,
            pod = format!("{namespace}/{name}"),
            "its mark was taken away: writing it again"
        );
        let mark = json!({"metadata": {"uid": uid, "labels": {marks::NODE: id}}});
        self.writer.merge(&POD, namespace, name, &mark).await?;
        pod["metadata"]["labels"][marks::NODE] = id.into();
        match serde_json::from_value::<LeanPod>(pod) {
            Ok(pod) => self.table.take(pod, false),
            // Its watch tells of it in a moment.
            Err(error) => tracing::debug!(%error, "a pod that cannot be read"),
        }
        self.table.of(node)
    }
}

/// Where the pod of a node was made, and which one; nothing of one that others made.
fn made(node: &Node) -> Option<(&str, &str, &str)> {
    let (namespace, rest) = node.physical_id.as_deref()?.split_once('/')?;
    let (name, uid) = rest.split_once('/')?;
    Some((namespace, name, uid))
}
