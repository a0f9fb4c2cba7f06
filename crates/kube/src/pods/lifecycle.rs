//! The start and stop of one node: creates its pod and waits until it is ready, or deletes it and waits until it is
//! gone.

use std::sync::Arc;
use std::time::Duration;

use muster_core::node::{Node, Observation};
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::kubernetes::POD;

use super::manifest::{self, NodePodRecipe};
use super::pod_cache::CachedPod;
use super::{PodProvider, unlisted};
use crate::writer::{DeletionProgress, LEAVING, run_detached};

/// The time that a pod may take until it is ready.
const START_DEADLINE: Duration = Duration::from_mins(10);

/// The time that one attempt waits for the deletion of a pod: longer than pods usually get to end (30 s). Only so many
/// nodes are stopped at a time: pods that stay do not hold up the others for longer.
const STOP_DEADLINE: Duration = Duration::from_mins(2);

impl PodProvider {
    /// Creates the pod of a node, unless it exists, and waits until it is ready. Returns its physical id.
    pub(super) async fn start_one(&self, call: FencedCall<'_>, node: &Node) -> Result<String, ProviderError> {
        let recipe =
            NodePodRecipe::read(call.profile).map_err(|why| ProviderError::permanent("Invalid", why))?;
        if let Some(pod) = self.find_listed(call, node).await? {
            self.writer.fences.refuse_older(call.fence, pod.node_pod.fence.as_ref())?;
            if pod.node_pod.leaving || matches!(pod.node_pod.observation, Observation::Exited { .. }) {
                // This is the pod of an earlier start, which has ended or is being deleted.
                self.delete_pod(&pod).await?;
                self.wait_until_gone(call, node, &pod, STOP_DEADLINE).await?;
                self.create_pod(call, node, &recipe).await?;
            }
        } else {
            self.create_pod(call, node, &recipe).await?;
        }
        let ready = tokio::time::timeout(START_DEADLINE, self.wait_until_ready(call, node)).await;
        match ready {
            Ok(result) => result,
            Err(_) => {
                let why =
                    self.find(call.target(), node).await?.map(|pod| pod.node_pod.reason).unwrap_or_default();
                let minutes = START_DEADLINE.as_secs() / 60;
                let message = format!("its pod is not ready after {minutes} minutes: {why}");
                Err(ProviderError::permanent("StartTimedOut", message))
            }
        }
    }

    /// Deletes the pod of a node and waits until it is gone.
    pub(super) async fn stop_one(&self, call: FencedCall<'_>, node: &Node) -> Result<(), ProviderError> {
        let Some(pod) = self.find_listed(call, node).await? else { return Ok(()) };
        self.writer.fences.refuse_older(call.fence, pod.node_pod.fence.as_ref())?;
        self.delete_pod(&pod).await?;
        self.wait_until_gone(call, node, &pod, STOP_DEADLINE).await
    }

    async fn create_pod(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        recipe: &NodePodRecipe,
    ) -> Result<(), ProviderError> {
        let namespace = manifest::namespace(call.profile, &call.cluster.namespace);
        self.namespaces.check_served(namespace)?;
        let (writer, creations, cache) =
            (self.writer.clone(), Arc::clone(&self.creations), Arc::clone(&self.cache));
        let (manifest, node, fence) = (recipe.manifest(node, namespace), node.id, call.fence);
        // The request completes even if the action is cancelled: an observation that finds no pod waits for the
        // request.
        run_detached(async move {
            let _held = creations.lock(node).await;
            let pod = writer.create_pod(manifest, node, fence).await?;
            cache.apply_written(unlisted::parse_pod(pod)?, true);
            Ok(())
        })
        .await
    }

    pub(super) async fn delete_pod(&self, pod: &CachedPod) -> Result<DeletionProgress, ProviderError> {
        self.writer.delete_object(&POD, &pod.namespace, &pod.node_pod.name, &pod.node_pod.uid).await
    }

    /// Waits until the pod of a node, which was cached when it was created, is ready.
    async fn wait_until_ready(&self, call: FencedCall<'_>, node: &Node) -> Result<String, ProviderError> {
        let mut epochs = self.cache.subscribe();
        loop {
            epochs.mark_unchanged();
            match self.find_listed(call, node).await?.map(|pod| pod.observation()) {
                Some(Observation::Running { physical_id }) => return Ok(physical_id),
                Some(Observation::Exited { reason }) => return Err(ProviderError::node_exited(reason)),
                Some(_) => {}
                None => return Err(ProviderError::node_exited("its pod was deleted while it started")),
            }
            // `self` owns the sender, so this does not fail.
            drop(epochs.changed().await);
        }
    }

    /// Waits until the pod of a node is gone. After the deadline the error is transient: a retry continues to wait.
    async fn wait_until_gone(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        pod: &CachedPod,
        deadline: Duration,
    ) -> Result<(), ProviderError> {
        let gone = async {
            let mut epochs = self.cache.subscribe();
            loop {
                epochs.mark_unchanged();
                let now = self.find_listed(call, node).await?;
                if now.is_none_or(|now| now.node_pod.uid != pod.node_pod.uid) {
                    return Ok(());
                }
                drop(epochs.changed().await);
            }
        };
        let late = |_| {
            let (namespace, name, seconds) = (&pod.namespace, &pod.node_pod.name, deadline.as_secs());
            let message = format!(
                "its pod '{namespace}/{name}' still exists {seconds} s after its deletion was requested: check its machine \
                 and its finalizers"
            );
            Err(ProviderError::transient(LEAVING, message))
        };
        tokio::time::timeout(deadline, gone).await.unwrap_or_else(late)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use muster_core::action::Fence;
    use muster_core::cluster::Cluster;
    use muster_core::sample;
    use muster_testkit::outside::Outside;
    use serde_json::{Value, json};

    use super::super::sample::provider;
    use super::*;
    use crate::ownership;

    /// The sample cluster and a node of it whose pod is in the namespace `demo`.
    fn cluster_and_node() -> (Cluster, Node) {
        let cluster = Cluster { namespace: "demo".to_owned(), ..sample::cluster(1, 0, None) };
        (cluster, Node { physical_id: None, ..sample::node(0) })
    }

    fn pod(node: &Node) -> Value {
        let labels = json!({ownership::NODE: node.id});
        json!({"metadata": {
            "name": "fred", "namespace": "demo", "uid": "u", "resourceVersion": "7", "labels": labels,
        }})
    }

    #[tokio::test]
    async fn a_pod_that_is_deleted_while_it_starts_is_not_waited_for() {
        let provider = provider(&Outside::start(500, "").await, &[]);
        let ((cluster, node), profile) = (cluster_and_node(), sample::profile());
        let call = FencedCall { cluster: &cluster, profile: &profile, fence: Fence(1) };
        let started = provider.wait_until_ready(call, &node).now_or_never().expect("it does not wait");
        let why = started.expect_err("the pod is gone");
        assert_eq!((why.message.as_str(), why.transient), ("its pod was deleted while it started", true));
    }

    #[tokio::test]
    async fn a_pod_whose_deletion_does_not_end_is_waited_for_by_a_retry() {
        let provider = provider(&Outside::start(500, "").await, &[]);
        let ((cluster, node), profile) = (cluster_and_node(), sample::profile());
        let call = FencedCall { cluster: &cluster, profile: &profile, fence: Fence(1) };
        provider.cache.apply_written(unlisted::parse_pod(pod(&node)).expect("a pod"), false);
        let cached = provider.find_listed(call, &node).await.expect("it is known").expect("it exists");
        let waited = provider.wait_until_gone(call, &node, &cached, Duration::ZERO);
        let waited = tokio::time::timeout(Duration::from_secs(30), waited).await.expect("it ends");
        let why = waited.expect_err("the pod stays");
        assert_eq!((why.reason.as_str(), why.transient), (LEAVING, true), "{}", why.message);
    }
}
