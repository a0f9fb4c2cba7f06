//! The changes of clusters that the engine asks for: creation, deletion, sizes and recipes, restart of the head.

use async_trait::async_trait;
use muster_core::change::ClusterUpdate;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::node::NodeRole;
use muster_core::restart::HEAD_GRACE;
use muster_engine::ports::provider::{
    ClusterTarget, DiscoveredCluster, FencedCall, MemberId, ObjectChange, OperatorProvider, ProviderError,
};
use muster_frameworks::kubernetes::DesiredCluster;

use super::object_writes::{plan_relabelling, plan_resize};
use super::parts::check_root;
use super::recipe_update::RecipeUpdate;
use super::{OperatorClusters, invalid, recipe_of};
use crate::apps::write_mark;
use crate::cluster_cache::CachedCluster;
use crate::discovered_cluster::read_discovered_cluster;
use crate::ownership;
use crate::writer::DeletionProgress;

#[async_trait]
impl OperatorProvider for OperatorClusters {
    async fn create(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let location = self.locate(call.cluster)?;
        location.check_name()?;
        self.delete_leftovers(&location).await?;
        let recipe = recipe_of(call.cluster, call.profile)?;
        let desired = DesiredCluster { cluster: call.cluster, recipe: &recipe };
        let manifests = location.flavor.manifests(desired).map_err(invalid)?;
        let mut root = None;
        for mut manifest in manifests {
            if root.is_none() {
                ownership::add_user_metadata(
                    &mut manifest.body,
                    &call.cluster.labels,
                    &call.cluster.annotations,
                );
            }
            if let Some(mark) = call.cluster.ephemeral.as_deref() {
                write_mark(&mut manifest.body, mark, root.is_none());
            }
            let owner = root.as_ref().filter(|_| manifest.owned);
            let created = self.create_object(&location, manifest, owner, call).await?;
            root.get_or_insert(created);
        }
        Ok(())
    }

    async fn delete(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let location = self.locate(call.cluster)?;
        let cached = location.snapshot()?;
        let Some(root) = cached.root.as_ref().map(|root| &root.value) else {
            return self.delete_orphans(&cached, call).await;
        };
        if !root.is_root_of(call.cluster) {
            return Ok(());
        }
        self.writer.fences.refuse_older(call.fence, root.fence.as_ref())?;
        match self.writer.delete_object(root.kind, &root.namespace, &root.name, &root.uid).await? {
            DeletionProgress::Deleted => location.cache.mark_deleted(&location.key, &root.uid),
            DeletionProgress::Deleting => {
                if let Some(now) = self.writer.read_object(root.kind, &root.namespace, &root.name).await? {
                    location.cache_written(root.kind, &now);
                }
            }
        }
        Ok(())
    }

    async fn write(&self, call: FencedCall<'_>, change: ObjectChange<'_>) -> Result<(), ProviderError> {
        let ObjectChange { before, resized, update, victims } = change;
        let location = self.locate(call.cluster)?;
        self.recreate_missing(&location, call, before).await?;
        let recipes = RecipeUpdate::new(update, before, call.target())?;
        let plan = |cached: &CachedCluster| {
            check_root(cached, &location.key)?;
            let mut writes = plan_resize(&location, cached, call.cluster, before, (resized, victims))?;
            writes.extend(recipes.plan(location.flavor, cached)?.writes);
            writes.extend(plan_relabelling(cached, before, call.cluster));
            Ok(writes)
        };
        self.plan_and_write(&location, &plan, call).await
    }

    async fn differs(
        &self,
        after: ClusterTarget<'_>,
        before: &Cluster,
        update: &ClusterUpdate,
    ) -> Result<Option<bool>, ProviderError> {
        let location = self.locate(after.cluster)?;
        let recipes = RecipeUpdate::new(Some(update), before, after)?;
        let cached = location.snapshot()?;
        let differs = recipes.plan(location.flavor, &cached)?.differs();
        if differs != Some(false) {
            return Ok(differs);
        }
        // The watch may not have reported a change of the object yet, and the update would leave that as it is.
        self.refresh_objects(&location, &cached).await?;
        Ok(recipes.plan(location.flavor, &location.snapshot()?)?.differs())
    }

    async fn settle(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let location = self.locate(call.cluster)?;
        let plan = |cached: &CachedCluster| {
            Ok(location.flavor.clean_up_resize(&location.key.name, &cached.projections()))
        };
        self.plan_and_write(&location, &plan, call).await
    }

    async fn replace_members(&self, call: FencedCall<'_>, old: &[MemberId]) -> Result<(), ProviderError> {
        let location = self.locate(call.cluster)?;
        self.recreate_missing(&location, call, call.cluster).await?;
        let cached = location.snapshot()?;
        if !cached.is_known_to_operator() {
            let operator = location.flavor.operator().unwrap_or("Kubernetes");
            return Err(ProviderError::not_yet(format!(
                "{operator} has not observed the newest pods of the cluster yet"
            )));
        }
        for pod in cached.pods().filter(|pod| old.iter().any(|old| old.uid == pod.uid)) {
            self.writer.delete_pod(&location.key.namespace, &pod.name, &pod.uid, HEAD_GRACE).await?;
        }
        let has_head = cached.pods().any(|pod| pod.member.role == NodeRole::Head);
        let recreation = location.flavor.recreate_head(&location.key.name).filter(|_| !has_head);
        self.execute_writes(&location, &cached, recreation.into_iter().collect(), call).await
    }

    fn discovered(&self) -> Vec<ClusterId> {
        let all = self.installed.all();
        all.iter().flat_map(|cache| cache.clusters()).collect()
    }

    fn disown(&self, id: ClusterId) {
        self.installed.all().iter().for_each(|cache| cache.disown(id));
    }

    async fn describe(&self, id: ClusterId) -> Result<Option<DiscoveredCluster>, ProviderError> {
        let all = self.installed.all();
        let Some((cache, key)) = all.iter().find_map(|cache| Some((cache, cache.find_key(id)?))) else {
            return Ok(None);
        };
        let cached = cache.snapshot(&key)?;
        let Some(root) = cached.root.as_ref().map(|root| &root.value) else { return Ok(None) };
        let object = self.read_root(root).await?;
        Ok(object.map(|object| read_discovered_cluster(cache.flavor, &object, &cached.projections())))
    }
}
