//! Changes of a cluster as writes of its objects, and their execution in order.

use std::collections::BTreeMap;

use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_engine::ports::provider::{CHANGED_MEANWHILE, FencedCall, ProviderError};
use muster_frameworks::kubernetes::{GroupResize, ObjectWrite, Victim, WriteOperation, merge_groups};
use serde_json::{Map, Value, json};

use super::OperatorClusters;
use super::cluster_location::ClusterLocation;
use crate::cluster_cache::CachedCluster;
use crate::ownership;
use crate::projection::ClusterPod;

/// The number of attempts of conflicting writes before the action is requeued.
const MAX_ATTEMPTS: u32 = 8;

impl OperatorClusters {
    /// Executes the writes that `plan` decides on for the present cluster. On a conflict with another writer, the
    /// objects are read, and `plan` decides again.
    pub(super) async fn plan_and_write(
        &self,
        location: &ClusterLocation,
        plan: &(dyn Fn(&CachedCluster) -> Result<Vec<ObjectWrite>, ProviderError> + Sync),
        call: FencedCall<'_>,
    ) -> Result<(), ProviderError> {
        let mut attempts = 0;
        loop {
            let cached = location.snapshot()?;
            attempts += 1;
            let written = match plan(&cached) {
                Ok(writes) => self.execute_writes(location, &cached, writes, call).await,
                Err(error) => Err(error),
            };
            match written {
                Err(error) if error.reason == CHANGED_MEANWHILE && attempts < MAX_ATTEMPTS => {
                    self.refresh_objects(location, &cached).await?;
                }
                written => return written,
            }
        }
    }

    /// Reads the objects of a cluster into the cache, without waiting for a watch.
    pub(super) async fn refresh_objects(
        &self,
        location: &ClusterLocation,
        cached: &CachedCluster,
    ) -> Result<(), ProviderError> {
        for object in cached.objects() {
            let since = location.cache.next_epoch();
            match self.writer.read_object(object.kind, &object.namespace, &object.name).await? {
                Some(now) => location.cache_read(since, object.kind, &now),
                None => location.cache.mark_deleted(&location.key, &object.uid),
            }
        }
        Ok(())
    }

    /// Executes writes in order, and caches each answer.
    pub(super) async fn execute_writes(
        &self,
        location: &ClusterLocation,
        cached: &CachedCluster,
        writes: Vec<ObjectWrite>,
        call: FencedCall<'_>,
    ) -> Result<(), ProviderError> {
        let writes = join_writes(self.resolve_pod_changes(location, writes).await?);
        // Only the last write carries the fence, as the record that all writes were done. An action that is interrupted
        // before repeats all of them.
        let last = writes.iter().rposition(|write| is_fenced(&write.operation));
        for (index, ObjectWrite { kind, name, operation }) in writes.into_iter().enumerate() {
            let (namespace, last) = (&location.key.namespace, Some(index) == last);
            let observed = || {
                cached.object(kind.kind, &name).ok_or_else(|| {
                    let message = format!("{} '{namespace}/{name}' does not exist any more", kind.kind);
                    ProviderError::transient(CHANGED_MEANWHILE, message)
                })
            };
            match operation {
                WriteOperation::JsonPatch(operations) if operations.is_empty() && !last => {}
                WriteOperation::JsonPatch(operations) => {
                    let patched = self.writer.patch(observed()?, operations, call.fence, last).await?;
                    location.cache_written(kind, &patched);
                }
                // `resolve_pod_changes` has replaced these by patches.
                WriteOperation::PodChanges(_) => {}
                WriteOperation::GuardedMerge(body) => {
                    let patched = self.writer.merge_patch(observed()?, body, call.fence, last).await?;
                    location.cache_written(kind, &patched);
                }
                WriteOperation::Merge(body) => {
                    self.writer.merge_patch_unconditionally(kind, namespace, &name, &body).await?;
                }
                WriteOperation::Delete => {
                    if let Some(now) = self.writer.read_object(kind, namespace, &name).await? {
                        let uid = now["metadata"]["uid"].as_str().unwrap_or_default();
                        self.writer.delete_object(kind, namespace, &name, uid).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Replaces changes of pod templates by patches of the present objects, to whose containers others may have
    /// added. Such a patch is refused if the object changes before it is written.
    async fn resolve_pod_changes(
        &self,
        location: &ClusterLocation,
        writes: Vec<ObjectWrite>,
    ) -> Result<Vec<ObjectWrite>, ProviderError> {
        let mut resolved = Vec::with_capacity(writes.len());
        for ObjectWrite { kind, name, operation } in writes {
            let WriteOperation::PodChanges(changes) = operation else {
                resolved.push(ObjectWrite { kind, name, operation });
                continue;
            };
            let object = match changes.as_slice() {
                [] => None,
                _ => self.writer.read_object(kind, &location.key.namespace, &name).await?,
            };
            let operations = |object| changes.iter().flat_map(|change| change.operations(object)).collect();
            let operation = WriteOperation::JsonPatch(object.as_ref().map(operations).unwrap_or_default());
            resolved.push(ObjectWrite { kind, name, operation });
        }
        Ok(resolved)
    }
}

/// Plans the writes that change the sizes and bounds of groups. The sizes of `requested` groups are written even if
/// they do not change. Fails with a conflict if the observed size of a group is not that of `before`.
pub(super) fn plan_resize(
    location: &ClusterLocation,
    cached: &CachedCluster,
    after: &Cluster,
    before: &Cluster,
    (requested, victims): (&[String], &[Node]),
) -> Result<Vec<ObjectWrite>, ProviderError> {
    let projections = cached.projections();
    let observed_groups = merge_groups(&projections);
    let chosen: BTreeMap<&str, Vec<Victim>> = after
        .groups
        .iter()
        .map(|group| {
            let own = victims.iter().filter(|node| node.group.as_ref() == Some(&group.name));
            // A pod of another group may have the same name.
            let pods = own
                .filter_map(|node| cached.pod(&node.name))
                .filter(|pod| pod.member.group.as_ref() == Some(&group.name));
            let victim =
                |pod: &ClusterPod| Victim { pod: pod.name.clone(), controller: pod.controller.clone() };
            (group.name.as_str(), pods.map(victim).collect())
        })
        .collect();
    let mut changes = Vec::new();
    for group in &after.groups {
        let Some(present) = before.group(&group.name) else { continue };
        let is_requested = requested.contains(&group.name);
        let desired = (group.desired != present.desired || is_requested).then_some(group.desired);
        let bounds = ((group.min, group.max) != (present.min, present.max)).then_some((group.min, group.max));
        let victims = chosen.get(group.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        if desired.is_none() && bounds.is_none() {
            continue;
        }
        let observed = observed_groups.iter().find(|observed| observed.name == group.name);
        if observed.is_some_and(|observed| desired.is_some() && observed.desired != present.desired) {
            let message = format!("group '{}' was resized in the meantime", group.name);
            return Err(ProviderError::transient(CHANGED_MEANWHILE, message));
        }
        changes.push(GroupResize { group: &group.name, desired, bounds, victims });
    }
    if changes.is_empty() {
        // An empty patch still writes the fence.
        let Some(root) = &cached.root else { return Ok(Vec::new()) };
        let (kind, name) = (root.value.kind, root.value.name.clone());
        return Ok(vec![ObjectWrite { kind, name, operation: WriteOperation::JsonPatch(Vec::new()) }]);
    }
    let writes = location.flavor.resize_groups(&location.key.name, &projections, &changes);
    writes.map_err(|why| ProviderError::permanent("Invalid", why))
}

/// Returns the write that changes the labels and annotations of users on the root; `None` if they do not change.
pub(super) fn plan_relabelling(
    cached: &CachedCluster,
    before: &Cluster,
    after: &Cluster,
) -> Option<ObjectWrite> {
    let mut metadata = Map::new();
    let kinds =
        [("labels", &before.labels, &after.labels), ("annotations", &before.annotations, &after.annotations)];
    for (place, before, after) in kinds {
        let gone = before.keys().filter(|key| !after.contains_key(*key) && !ownership::is_reserved_key(key));
        let gone = gone.map(|key| (key.clone(), Value::Null));
        let new = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
        let new = new.map(|(key, value)| (key.clone(), Value::from(value.clone())));
        let changes: Map<String, Value> = gone.chain(new).collect();
        if !changes.is_empty() {
            metadata.insert(place.to_owned(), Value::Object(changes));
        }
    }
    let root = &cached.root.as_ref().filter(|_| !metadata.is_empty())?.value;
    let operation = WriteOperation::GuardedMerge(json!({"metadata": metadata}));
    Some(ObjectWrite { kind: root.kind, name: root.name.clone(), operation })
}

/// Returns true if a write is refused if the object or its fence has changed.
fn is_fenced(operation: &WriteOperation) -> bool {
    matches!(operation, WriteOperation::JsonPatch(_) | WriteOperation::GuardedMerge(_))
}

/// Joins the writes of the same object into one, in the place of the last: a write between them may have to come first.
fn join_writes(writes: Vec<ObjectWrite>) -> Vec<ObjectWrite> {
    let mut joined: Vec<ObjectWrite> = Vec::new();
    for mut write in writes {
        let same = |before: &ObjectWrite| {
            let alike = std::mem::discriminant(&before.operation) == std::mem::discriminant(&write.operation);
            before.kind == write.kind && before.name == write.name && alike && is_fenced(&before.operation)
        };
        if let Some(place) = joined.iter().position(same) {
            write.operation = join_operations(joined.remove(place).operation, write.operation);
        }
        joined.push(write);
    }
    joined
}

fn join_operations(before: WriteOperation, after: WriteOperation) -> WriteOperation {
    match (before, after) {
        (WriteOperation::JsonPatch(mut operations), WriteOperation::JsonPatch(more)) => {
            operations.extend(more);
            WriteOperation::JsonPatch(operations)
        }
        (WriteOperation::GuardedMerge(mut body), WriteOperation::GuardedMerge(more)) => {
            join_merge_patches(&mut body, more);
            WriteOperation::GuardedMerge(body)
        }
        (_, after) => after,
    }
}

/// Adds a merge patch to another. What the first removes stays removed.
fn join_merge_patches(body: &mut Value, more: Value) {
    match (body, more) {
        (Value::Object(body), Value::Object(more)) => {
            for (key, value) in more {
                join_merge_patches(body.entry(key).or_insert(Value::Null), value);
            }
        }
        (body, more) => *body = more,
    }
}

#[cfg(test)]
mod tests {
    use muster_frameworks::kubernetes::POD;

    use super::*;

    fn write(name: &str, operation: WriteOperation) -> ObjectWrite {
        ObjectWrite { kind: &POD, name: name.to_owned(), operation }
    }

    #[test]
    fn writes_of_one_object_are_joined_in_the_place_of_the_last() {
        let patch = |name: &str, number: u32| write(name, WriteOperation::JsonPatch(vec![json!(number)]));
        let writes = vec![patch("a", 1), write("x", WriteOperation::Delete), patch("b", 2), patch("a", 3)];
        let joined = join_writes(writes);
        let both = write("a", WriteOperation::JsonPatch(vec![json!(1), json!(3)]));
        assert_eq!(joined, [write("x", WriteOperation::Delete), patch("b", 2), both]);
    }

    #[test]
    fn joined_merge_patches_keep_removals() {
        let sizes = json!({"spec": {"worker": {"replicas": 2}, "autoscaling": {"minReplicas": 2}}});
        let recipe = json!({"spec": {"worker": {"resources": {"limits": {"cpu": null}}}}});
        let writes = vec![
            write("a", WriteOperation::GuardedMerge(sizes)),
            write("a", WriteOperation::GuardedMerge(recipe)),
        ];
        let one = json!({"spec": {
            "worker": {"replicas": 2, "resources": {"limits": {"cpu": null}}}, "autoscaling": {"minReplicas": 2},
        }});
        assert_eq!(join_writes(writes), [write("a", WriteOperation::GuardedMerge(one))]);
    }
}
