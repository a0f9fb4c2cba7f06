//! Snapshots of clusters that are at least as recent as everything that any replica has recorded of them.

use std::collections::HashSet;

use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_engine::ports::provider::{MemberId, ObjectContent, ProviderError};
use serde_json::Value;

use super::OperatorClusters;
use super::cluster_location::ClusterLocation;
use crate::cluster_cache::{CachedCluster, WatchTarget};
use crate::content::RootContent;
use crate::projection::{CachedObject, LeanPod};
use crate::untyped_object::UntypedObject;
use crate::watches::{self, typed_api, untyped_api};

impl OperatorClusters {
    /// Returns the cached cluster. If its rows have a later state, which another replica wrote or observed, the watches
    /// lag: then all objects of the flavor in the namespace are listed first.
    pub(super) async fn current_cluster(
        &self,
        location: &ClusterLocation,
        cluster: &Cluster,
        nodes: &[Node],
    ) -> Result<CachedCluster, ProviderError> {
        let mut cached = location.snapshot()?;
        if cached.root.is_none() {
            // A cancelled action may have sent a creation that has not ended.
            drop(self.creations.lock(location.key.clone()).await);
            cached = location.snapshot()?;
        }
        if !self.is_stale(location, &cached, cluster)
            && unreported_losses(location, &cached, nodes).is_empty()
        {
            return Ok(cached);
        }
        self.list_namespace(location).await?;
        let cached = location.snapshot()?;
        let identity = cached.root.as_ref().map(|root| &root.value.uid);
        if let Some(known) = cluster.observed.object.as_ref().filter(|known| Some(*known) != identity) {
            location.cache.mark_deleted(&location.key, known);
        }
        for pod in unreported_losses(location, &cached, nodes) {
            location.cache.mark_deleted(&location.key, &pod);
        }
        Ok(cached)
    }

    fn is_stale(&self, location: &ClusterLocation, cached: &CachedCluster, cluster: &Cluster) -> bool {
        let known = &cluster.observed;
        let is_gone = known.object.as_ref().is_some_and(|uid| location.cache.is_deleted(uid));
        let is_older = || {
            cached.fence(&self.writer.fences) < known.fence || cached.generation() < known.object_generation
        };
        !is_gone && is_older()
    }

    /// Returns the content of a cluster's root, if it differs from that of the row.
    pub(super) async fn changed_content(
        &self,
        location: &ClusterLocation,
        cached: &CachedCluster,
        cluster: &Cluster,
    ) -> Result<Option<ObjectContent>, ProviderError> {
        let Some(root) = cached.root.as_ref().map(|root| &root.value) else { return Ok(None) };
        let Some(digest) = root.content.as_ref().filter(|now| **now != cluster.observed.object_content)
        else {
            return Ok(None);
        };
        if let Some(recent) = location.cache.recent_content(&root.uid, digest) {
            return Ok(Some(recent.parse(location.flavor)));
        }
        let object = self.read_root(root).await?;
        Ok(object.map(|object| RootContent::read(location.flavor, &object).parse(location.flavor)))
    }

    /// Reads a root; none if it is gone, also if another object has its name.
    pub(super) async fn read_root(&self, root: &CachedObject) -> Result<Option<Value>, ProviderError> {
        let object = self.writer.read_object(root.kind, &root.namespace, &root.name).await?;
        Ok(object.filter(|object| object["metadata"]["uid"] == root.uid.as_str()))
    }

    /// Lists everything of the flavor in the namespace, and updates the cache.
    async fn list_namespace(&self, location: &ClusterLocation) -> Result<(), ProviderError> {
        let (cache, namespace) = (&location.cache, location.key.namespace.as_str());
        for &target in cache.targets() {
            let begun = cache.next_epoch();
            match target {
                WatchTarget::Pods => {
                    let pods = typed_api::<LeanPod>(self.client.clone(), Some(namespace));
                    let apply = |pod| cache.apply_pod(Some(begun), pod, true);
                    watches::list_all(&pods, location.flavor.pod_selector(), apply).await?;
                }
                WatchTarget::Objects(watched) => {
                    let objects = untyped_api(self.client.clone(), watched.kind, Some(namespace));
                    let apply = |object: UntypedObject| {
                        cache.apply_object(Some(begun), watched, &object.body, true);
                    };
                    watches::list_all(&objects, watched.selector, apply).await?;
                }
            }
            cache.finish_list(target, namespace, begun);
        }
        Ok(())
    }
}

/// Returns the UIDs of pods that rows name and the cache lacks, although no watch has reported their deletion.
fn unreported_losses(location: &ClusterLocation, cached: &CachedCluster, nodes: &[Node]) -> Vec<String> {
    let present: HashSet<&str> = cached.uids().collect();
    let known = nodes.iter().filter_map(MemberId::of).map(|member| member.uid);
    known.filter(|uid| !present.contains(uid.as_str()) && !location.cache.is_deleted(uid)).collect()
}
