//! Writes to the Deployments of a Spark cluster.

use muster_core::recipe::ClusterRecipe;
use serde_json::{Value, json};

use super::{CONFIG, manifests, settings};
use crate::kubernetes::flavor::{DesiredCluster, GroupResize, ObjectWrite, Victim, WriteOperation};
use crate::kubernetes::metadata::only_group;
use crate::kubernetes::object::{DEPLOYMENT, POD};
use crate::kubernetes::patch::add;
use crate::kubernetes::pod_change::PodChange;
use crate::kubernetes::projection::ObjectProjection;

/// The annotation by which a replica set chooses the pods to delete; unready pods are deleted before others.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn resize(
    objects: &[&ObjectProjection],
    changes: &[GroupResize<'_>],
) -> Result<Vec<ObjectWrite>, String> {
    let mut steps = Vec::new();
    for change in changes {
        let workers = workers(objects, change.group)?;
        steps.extend(change.victims.iter().map(prefer_deletion));
        // Bounds exist only in the row: the object has no field for them.
        let replicas = change.desired.map(|desired| add("/spec/replicas", &json!(desired)));
        steps.push(patch(&workers.object, replicas.into_iter().collect()));
        steps.extend(change.desired.and_then(|desired| recorded_size(objects, desired)));
    }
    Ok(steps)
}

fn prefer_deletion(victim: &Victim) -> ObjectWrite {
    let body = json!({"metadata": {"annotations": {DELETION_COST: "-1000"}}});
    ObjectWrite { kind: &POD, name: victim.pod.clone(), operation: WriteOperation::Merge(body) }
}

/// Returns the write of the size to the master's annotation, from which clients of Oshinko read it.
fn recorded_size(objects: &[&ObjectProjection], workers: u32) -> Option<ObjectWrite> {
    let root = objects.first()?;
    let config = root.config.as_deref().and_then(|config| settings::resized(config, workers));
    let config =
        config.unwrap_or_else(|| settings::config(&ClusterRecipe::default(), workers, &root.head.image));
    let body = json!({"metadata": {"annotations": {CONFIG: config}}});
    Some(ObjectWrite { kind: &DEPLOYMENT, name: root.object.clone(), operation: WriteOperation::Merge(body) })
}

fn workers<'w>(objects: &[&'w ObjectProjection], group: &str) -> Result<&'w ObjectProjection, String> {
    let mut all = objects.iter().copied();
    let own = all.find(|object| object.groups.iter().any(|own| own.name == group));
    own.ok_or_else(|| format!("there is no Deployment of workers of group '{group}'"))
}

pub(super) fn remake(
    before: DesiredCluster<'_>,
    after: DesiredCluster<'_>,
    objects: &[&ObjectProjection],
    flavor: &str,
) -> Result<Vec<ObjectWrite>, String> {
    let group = only_group(after.cluster, flavor)?;
    let name = &after.cluster.object_name;
    let workers = workers(objects, &group.name)?;
    let root = objects.first().ok_or_else(|| "there is no Deployment of the master".to_owned())?;
    let changed = |made: &dyn Fn(DesiredCluster<'_>) -> Value| {
        PodChange::new("/spec/template/spec", made(before), made(after)).into_iter().collect()
    };
    let worker = |DesiredCluster { cluster, recipe }: DesiredCluster<'_>| {
        manifests::worker(recipe, &recipe.workers(cluster.group(&group.name)), name)
    };
    let master = |plan: DesiredCluster<'_>| manifests::master(plan.recipe, name);
    let step = |name: &str, changes| ObjectWrite {
        kind: &DEPLOYMENT,
        name: name.to_owned(),
        operation: WriteOperation::PodChanges(changes),
    };
    Ok(vec![step(&workers.object, changed(&worker)), step(&root.object, changed(&master))])
}

fn patch(name: &str, operations: Vec<Value>) -> ObjectWrite {
    ObjectWrite { kind: &DEPLOYMENT, name: name.to_owned(), operation: WriteOperation::JsonPatch(operations) }
}
