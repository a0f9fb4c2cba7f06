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
use crate::writer::{DeletionProgress, run_detached};

/// The time that a pod may take until it is ready.
const START_DEADLINE: Duration = Duration::from_mins(10);

impl PodProvider {
    /// Creates the pod of a node, unless it exists, and waits until it is ready. Returns its physical id.
    pub(super) async fn start_one(&self, call: FencedCall<'_>, node: &Node) -> Result<String, ProviderError> {
        let recipe =
            NodePodRecipe::read(call.profile).map_err(|why| ProviderError::permanent("Invalid", why))?;
        if let Some(pod) = self.find_listed(call, node).await? {
            self.writer.fences.refuse_older(call.fence, pod.node_pod.fence.as_ref())?;
            if pod.node_pod.leaving || matches!(pod.node_pod.observation, Observation::Exited { .. }) {
                // The pod of an earlier start: it was lost, or is being stopped.
                self.delete_pod(&pod).await?;
                self.wait_until_gone(call, node, &pod).await?;
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
        self.wait_until_gone(call, node, &pod).await
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
        // The request completes also if the action is cancelled: an observation that finds no pod waits for it.
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

    async fn wait_until_ready(&self, call: FencedCall<'_>, node: &Node) -> Result<String, ProviderError> {
        let mut epochs = self.cache.subscribe();
        loop {
            epochs.mark_unchanged();
            match self.find_listed(call, node).await?.map(|pod| pod.observation()) {
                Some(Observation::Running { physical_id }) => return Ok(physical_id),
                Some(Observation::Exited { reason }) => return Err(ProviderError::node_exited(reason)),
                // It was just created, or is starting.
                _ => {}
            }
            // `self` owns the sender, so this does not fail.
            drop(epochs.changed().await);
        }
    }

    async fn wait_until_gone(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        pod: &CachedPod,
    ) -> Result<(), ProviderError> {
        let mut epochs = self.cache.subscribe();
        loop {
            epochs.mark_unchanged();
            if self.find_listed(call, node).await?.is_none_or(|now| now.node_pod.uid != pod.node_pod.uid) {
                return Ok(());
            }
            drop(epochs.changed().await);
        }
    }
}
