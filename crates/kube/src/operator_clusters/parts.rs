//! The objects of a cluster beside its root: creates them, recreates deleted ones, and deletes leftovers of a former
//! cluster of the same name.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_engine::ports::provider::{CHANGED_MEANWHILE, FencedCall, ProviderError};
use muster_frameworks::kubernetes::{DesiredCluster, Manifest};
use serde_json::Value;

use super::cluster_location::ClusterLocation;
use super::{OperatorClusters, invalid, recipe_of};
use crate::apps::{self, REPLICA_SET, write_mark};
use crate::cluster_cache::{CachedCluster, ClusterKey};
use crate::projection::CachedObject;
use crate::writer::run_detached;

/// The message for a change of a cluster without its root.
const ROOT_DELETED: &str = "its root object was deleted without its other objects: delete the cluster";

/// Refuses to change a cluster whose root was deleted since it was observed. The error is transient: the next
/// observation reports the deletion.
pub(super) fn check_root(cached: &CachedCluster, key: &ClusterKey) -> Result<(), ProviderError> {
    if cached.root.is_some() { Ok(()) } else { Err(deleted_meanwhile(key)) }
}

fn deleted_meanwhile(ClusterKey { namespace, name }: &ClusterKey) -> ProviderError {
    ProviderError::transient(CHANGED_MEANWHILE, format!("'{namespace}/{name}' was deleted in the meantime"))
}

impl OperatorClusters {
    /// Deletes leftover objects of a former cluster of this name, which would be taken for objects of the new one.
    /// Objects that users created are not deleted: the creation fails.
    pub(super) async fn delete_leftovers(&self, location: &ClusterLocation) -> Result<(), ProviderError> {
        let cached = location.snapshot()?;
        let left: Vec<&CachedObject> = cached.objects().collect();
        if cached.root.is_some() || left.is_empty() {
            return Ok(());
        }
        for object in plan_deletions(&left, &location.key, |uid| location.cache.is_deleted(uid))? {
            self.writer.delete_object(object.kind, &object.namespace, &object.name, &object.uid).await?;
        }
        let names: Vec<&str> = left.iter().map(|object| object.name.as_str()).collect();
        let message = format!(
            "waiting for the deletion of objects of a former cluster of this name: {}",
            names.join(", ")
        );
        Err(ProviderError::transient("Leftovers", message))
    }

    /// Deletes the objects of a cluster whose root was deleted without its dependents.
    pub(super) async fn delete_orphans(
        &self,
        cached: &CachedCluster,
        call: FencedCall<'_>,
    ) -> Result<(), ProviderError> {
        let orphans: Vec<&CachedObject> =
            cached.objects().filter(|part| part.is_orphan_of(call.cluster)).collect();
        for part in &orphans {
            self.writer.fences.refuse_older(call.fence, part.fence.as_ref())?;
        }
        // Replica sets of the deleted root come first: once the other objects are gone, the cluster counts as deleted.
        let namespace = &call.cluster.namespace;
        let controllers =
            cached.pods().filter(|pod| pod.is_replaced).filter_map(|pod| pod.controller.as_deref());
        for name in controllers.collect::<BTreeSet<_>>().into_iter().filter(|_| !orphans.is_empty()) {
            let set = self.writer.read_object(&REPLICA_SET, namespace, name).await?;
            let orphan = set.filter(|set| set["metadata"]["ownerReferences"].is_null());
            if let Some(uid) = orphan.as_ref().and_then(|set| set["metadata"]["uid"].as_str()) {
                self.writer.delete_object(&REPLICA_SET, namespace, name, uid).await?;
            }
        }
        for part in orphans {
            self.writer.delete_object(part.kind, &part.namespace, &part.name, &part.uid).await?;
        }
        Ok(())
    }

    /// Removes the ownership of an app that the label of the root no longer names.
    pub(super) async fn release_from_former_app(&self, cached: &CachedCluster) {
        let Some(root) = cached.root.as_ref().map(|root| &root.value).filter(|root| root.has_former_app)
        else {
            return;
        };
        let release = async {
            match self.read_root(root).await?.as_ref().and_then(apps::release_patch) {
                Some(release) => {
                    self.writer
                        .merge_patch_unconditionally(root.kind, &root.namespace, &root.name, &release)
                        .await
                }
                None => Ok(()),
            }
        };
        // A failure does not hinder the observation, and the next observation tries again.
        if let Err(error) = release.await {
            let (namespace, name) = (&root.namespace, &root.name);
            tracing::warn!(%error, namespace, name, "cannot remove the ownership of a former app from a cluster");
        }
    }

    /// Creates an object and caches the answer, also if the caller is dropped. An observation that finds no object
    /// waits for a creation that has not ended.
    pub(super) async fn create_object(
        &self,
        location: &ClusterLocation,
        manifest: Manifest,
        owner: Option<&Value>,
        call: FencedCall<'_>,
    ) -> Result<Value, ProviderError> {
        let (writer, creations, location) =
            (self.writer.clone(), Arc::clone(&self.creations), location.clone());
        let (owner, cluster, fence) = (owner.cloned(), call.cluster.id, call.fence);
        let creation = async move {
            let _held = creations.lock(location.key.clone()).await;
            let kind = manifest.kind;
            let created = writer.create_object(manifest, owner.as_ref(), cluster, fence).await?;
            location.cache_written(kind, &created);
            Ok(created)
        };
        run_detached(creation).await
    }

    /// Recreates deleted objects of a cluster as they were before the change, which is written afterwards.
    pub(super) async fn recreate_missing(
        &self,
        location: &ClusterLocation,
        call: FencedCall<'_>,
        before: &Cluster,
    ) -> Result<(), ProviderError> {
        let cached = location.snapshot()?;
        let Some(root) = cached.root.as_ref().map(|root| &root.value) else {
            if cached.objects().any(|part| part.is_orphan_of(before)) {
                return Err(ProviderError::permanent("RootDeleted", ROOT_DELETED));
            }
            return Ok(());
        };
        if location.flavor.missing_objects(&location.key.name, &cached.projections()).is_empty() {
            return Ok(());
        }
        self.writer.fences.refuse_older(call.fence, root.fence.as_ref())?;
        let Some(owner) = self.read_root(root).await? else {
            return Err(deleted_meanwhile(&location.key));
        };
        let recipe = recipe_of(before, call.profile)?;
        let manifests = location
            .flavor
            .manifests(DesiredCluster { cluster: before, recipe: &recipe })
            .map_err(invalid)?;
        // With the fence of this action, an interrupted change would count as written.
        let fence = self.writer.fences.read(root.fence.as_ref()).unwrap_or(Fence(0));
        for mut manifest in manifests.into_iter().filter(|manifest| manifest.owned) {
            if let Some(mark) = before.ephemeral.as_deref() {
                write_mark(&mut manifest.body, mark, false);
            }
            let (kind, name) = (manifest.kind, manifest.body["metadata"]["name"].as_str());
            if name.is_some_and(|name| cached.object(kind.kind, name).is_none()) {
                self.create_object(location, manifest, Some(&owner), FencedCall { fence, ..call }).await?;
            }
        }
        Ok(())
    }
}

/// Returns those of the objects without a root that certainly are leftovers. An error if a user created one of them:
/// tools apply the objects of a cluster in any order, so its root may follow.
fn plan_deletions<'o>(
    left: &[&'o CachedObject],
    ClusterKey { namespace, name }: &ClusterKey,
    is_deleted: impl Fn(&str) -> bool,
) -> Result<Vec<&'o CachedObject>, ProviderError> {
    let present = || left.iter().copied().filter(|object| object.leaving.is_none());
    // Operators create custom resources and Deployments, which lack an owner if the root was deleted meanwhile.
    let is_core = |object: &CachedObject| object.kind.group.is_empty();
    let is_of_user = |object: &&CachedObject| {
        is_core(object) && !object.is_created_by_muster() && object.owners.is_empty()
    };
    if let Some(object) = present().find(is_of_user) {
        let message = format!(
            "cannot create '{namespace}/{name}': {} '{}' would become a part of it, and was not created by Muster: delete \
             that object, or choose another name",
            object.kind.kind, object.name
        );
        return Err(ProviderError::permanent("AlreadyExists", message));
    }
    // Objects of operators have an owner. If its deletion was not observed here, Kubernetes deletes them.
    let is_leftover = |object: &&CachedObject| {
        object.is_created_by_muster() || object.owners.iter().all(|owner| is_deleted(owner))
    };
    Ok(present().filter(is_leftover).collect())
}

#[cfg(test)]
mod tests {
    use muster_frameworks::kubernetes::{ObjectProjection, POD};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::fences::WrittenFence;
    use crate::ownership;

    fn key() -> ClusterKey {
        ClusterKey { namespace: "team".to_owned(), name: "fred".to_owned() }
    }

    /// An object of the cluster `fred`, which Muster created or not, with or without an owner.
    fn part(is_own: bool, owner: Option<&str>) -> CachedObject {
        let mut object = json!({"metadata": {
            "name": "fred-w", "namespace": "team", "uid": "0190f3a2-7b1c-4d4e-8f00-000000000001",
        }});
        if is_own {
            let former = "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().expect("an id");
            ownership::mark_object(&mut object, former, &WrittenFence::new("ours/7"));
        }
        object["metadata"]["ownerReferences"] = owner.map(|uid| json!([{"uid": uid}])).into();
        CachedObject::read(&POD, &object, ObjectProjection::default())
    }

    #[rstest]
    #[case::of_muster(&part(true, None), true)]
    #[case::of_muster_with_an_owner(&part(true, Some("other")), true)]
    #[case::of_an_operator(&part(false, Some("deleted")), true)]
    #[case::of_an_operator_whose_owner_may_exist(&part(false, Some("other")), false)]
    #[case::being_deleted(&CachedObject { leaving: Some(Vec::new()), ..part(false, None) }, false)]
    fn only_what_muster_or_an_operator_created_is_deleted_as_a_leftover(
        #[case] object: &CachedObject,
        #[case] is_deleted: bool,
    ) {
        let planned = plan_deletions(&[object], &key(), |uid| uid == "deleted").expect("nothing of a user");
        assert_eq!(planned.len(), usize::from(is_deleted));
    }

    #[test]
    fn an_object_that_a_user_applied_before_its_root_is_not_deleted() {
        let (own, of_user) = (part(true, None), part(false, None));
        let refused = plan_deletions(&[&own, &of_user], &key(), |_| true).expect_err("nothing is deleted");
        assert_eq!((refused.reason.as_str(), refused.transient), ("AlreadyExists", false));
        assert!(refused.message.contains("'team/fred': Pod 'fred-w'"), "{}", refused.message);
    }

    #[test]
    fn a_change_of_a_cluster_without_a_root_is_retried_after_an_observation() {
        let error = check_root(&CachedCluster::default(), &key()).expect_err("the cluster has no root");
        assert!(error.transient, "the next observation finds it deleted: {error:?}");
        assert_eq!(error.message, "'team/fred' was deleted in the meantime");
    }
}
