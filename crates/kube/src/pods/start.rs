//! One node: from nothing to a pod that works, and back.

use std::sync::Arc;
use std::time::Duration;

use muster_core::node::{Node, Observation};
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::kubernetes::POD;

use super::manifest::{self, PodRecipe};
use super::table::OwnPod;
use super::{Pods, unlisted};
use crate::write::{Deleted, detached};

/// How long a pod may take until it works.
const START_WITHIN: Duration = Duration::from_mins(10);

impl Pods {
    /// Makes the pod of a node, unless it is there, and waits until it works; what it is there.
    pub(super) async fn start_one(&self, call: FencedCall<'_>, node: &Node) -> Result<String, ProviderError> {
        let recipe = PodRecipe::of(call.profile).map_err(|why| ProviderError::permanent("Invalid", why))?;
        if let Some(pod) = self.find_listed(call, node).await? {
            self.writer.fences.refuse_older(call.fence, pod.facts.fence.as_ref())?;
            if pod.facts.leaving || matches!(pod.facts.seen, Observation::Exited { .. }) {
                // It is one of before: what was lost, or was being stopped.
                self.remove(&pod).await?;
                self.until_gone(call, node, &pod).await?;
                self.make(call, node, &recipe).await?;
            }
        } else {
            self.make(call, node, &recipe).await?;
        }
        let waited = tokio::time::timeout(START_WITHIN, self.until_it_works(call, node)).await;
        match waited {
            Ok(result) => result,
            Err(_) => {
                let why =
                    self.find(call.target(), node).await?.map(|pod| pod.facts.reason).unwrap_or_default();
                let minutes = START_WITHIN.as_secs() / 60;
                let message = format!("its pod does not work after {minutes} minutes: {why}");
                Err(ProviderError::permanent("StartTimedOut", message))
            }
        }
    }

    /// Deletes the pod of a node and waits until it is gone.
    pub(super) async fn stop_one(&self, call: FencedCall<'_>, node: &Node) -> Result<(), ProviderError> {
        let Some(pod) = self.find_listed(call, node).await? else { return Ok(()) };
        self.writer.fences.refuse_older(call.fence, pod.facts.fence.as_ref())?;
        self.remove(&pod).await?;
        self.until_gone(call, node, &pod).await
    }

    async fn make(&self, call: FencedCall<'_>, node: &Node, recipe: &PodRecipe) -> Result<(), ProviderError> {
        let namespace = manifest::namespace(call.profile, &call.cluster.namespace);
        self.namespaces.check_served(namespace)?;
        let (writer, creations, table) =
            (self.writer.clone(), Arc::clone(&self.creations), Arc::clone(&self.table));
        let (manifest, node, fence) = (recipe.manifest(node, namespace), node.id, call.fence);
        // A request that was sent is not taken back: a reader that finds no pod waits for it.
        detached(async move {
            let _held = creations.lock(node).await;
            let pod = writer.make_node(manifest, node, fence).await?;
            table.take(unlisted::lean(pod)?, true);
            Ok(())
        })
        .await
    }

    pub(super) async fn remove(&self, pod: &OwnPod) -> Result<Deleted, ProviderError> {
        self.writer.delete(&POD, &pod.namespace, &pod.facts.name, &pod.facts.uid).await
    }

    async fn until_it_works(&self, call: FencedCall<'_>, node: &Node) -> Result<String, ProviderError> {
        let mut moments = self.table.listen();
        loop {
            moments.mark_unchanged();
            match self.find_listed(call, node).await?.map(|pod| pod.seen()) {
                Some(Observation::Running { physical_id }) => return Ok(physical_id),
                Some(Observation::Exited { reason }) => return Err(ProviderError::node_exited(reason)),
                // Just made, and not told of yet; or on its way.
                _ => {}
            }
            // The table lives as long as this.
            drop(moments.changed().await);
        }
    }

    async fn until_gone(&self, call: FencedCall<'_>, node: &Node, pod: &OwnPod) -> Result<(), ProviderError> {
        let mut moments = self.table.listen();
        loop {
            moments.mark_unchanged();
            if self.find_listed(call, node).await?.is_none_or(|now| now.facts.uid != pod.facts.uid) {
                return Ok(());
            }
            drop(moments.changed().await);
        }
    }
}
