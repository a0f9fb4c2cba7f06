//! Writes to objects of the Dask operator.
//!
//! Each worker is a Deployment. The operator creates and removes workers only when the number of a group changes. To
//! choose the workers to remove, it calls the scheduler, and hangs if that does not respond. So the chosen Deployments
//! are deleted first, and then the number already fits. An interruption between both leaves fewer workers than the
//! number: a retry, or any other change of the number, repairs that.

use serde_json::{Value, json};

use super::{AUTOSCALER, CLUSTER, WORKER_GROUP, manifests};
use crate::kubernetes::flavor::{DesiredCluster, GroupResize, ObjectWrite, Victim, WriteOperation};
use crate::kubernetes::metadata::only_group;
use crate::kubernetes::object::{DEPLOYMENT, ResourceKind};
use crate::kubernetes::patch::add;
use crate::kubernetes::pod_change::PodChange;
use crate::kubernetes::projection::ObjectProjection;

pub(super) fn resize(
    objects: &[&ObjectProjection],
    changes: &[GroupResize<'_>],
) -> Result<Vec<ObjectWrite>, String> {
    let mut steps = Vec::new();
    for change in changes {
        let object = object_of(objects, change.group)?;
        steps.extend(deletions(object, change.victims));
        let autoscaler = objects.iter().find(|object| scales_group(object, change.group));
        if let Some((autoscaler, bounds)) = autoscaler.zip(change.bounds) {
            steps.push(patch(&AUTOSCALER, &autoscaler.object, bounds_operations(change.group, bounds)?));
        }
        // Without an autoscaler, bounds exist only in the row: the object has no field for them.
        let replicas = change.desired.map(|desired| add("/spec/worker/replicas", &json!(desired)));
        steps.push(patch(&WORKER_GROUP, object, replicas.into_iter().collect()));
    }
    Ok(steps)
}

/// Returns the object of a group. The root is skipped: its number is only the initial one, and must not be written.
fn object_of<'w>(objects: &[&'w ObjectProjection], group: &str) -> Result<&'w str, String> {
    let mut objects = objects.iter().skip(1);
    let own = objects.find(|object| object.groups.iter().any(|own| own.name == group));
    own.map(|object| object.object.as_str())
        .ok_or_else(|| format!("there is no DaskWorkerGroup of group '{group}'"))
}

fn scales_group(object: &ObjectProjection, group: &str) -> bool {
    let of_group = object.autoscaler.as_ref().and_then(|autoscaler| autoscaler.group.as_deref());
    of_group == Some(group)
}

fn bounds_operations(group: &str, (min, max): (u32, Option<u32>)) -> Result<Vec<Value>, String> {
    let max = max.ok_or_else(|| format!("the autoscaler of group '{group}' needs a largest size"))?;
    Ok(vec![add("/spec/minimum", &json!(min)), add("/spec/maximum", &json!(max))])
}

fn deletions(group: &str, victims: &[Victim]) -> Vec<ObjectWrite> {
    let of_group = format!("{group}-worker-");
    let deployment = |victim: &Victim| {
        // A replica set is named after its Deployment, with a hash appended.
        let (name, _) = victim.controller.as_deref()?.rsplit_once('-')?;
        // Other controllers do not belong to the operator.
        name.starts_with(&of_group).then(|| name.to_owned())
    };
    let delete = |name: String| ObjectWrite { kind: &DEPLOYMENT, name, operation: WriteOperation::Delete };
    victims.iter().filter_map(deployment).map(delete).collect()
}

pub(super) fn remake(
    before: DesiredCluster<'_>,
    after: DesiredCluster<'_>,
    objects: &[&ObjectProjection],
) -> Result<Vec<ObjectWrite>, String> {
    let cluster = after.cluster;
    let group = only_group(cluster, "dask-operator")?;
    let object = object_of(objects, &group.name)?;
    let worker = |DesiredCluster { cluster, recipe }: DesiredCluster<'_>| {
        manifests::worker(recipe, &recipe.workers(cluster.group(&group.name)))
    };
    let workers = PodChange::new("/spec/worker/spec", worker(before), worker(after));
    let scheduler = |plan: DesiredCluster<'_>| manifests::scheduler(plan.recipe);
    let scheduler = PodChange::new("/spec/scheduler/spec", scheduler(before), scheduler(after));
    let step = |kind, name: &str, changes| ObjectWrite {
        kind,
        name: name.to_owned(),
        operation: WriteOperation::PodChanges(changes),
    };
    // The operator recreates a deleted group from the root, so that the root must change, too.
    let root = scheduler.into_iter().chain(workers.clone()).collect();
    let workers = workers.into_iter().collect();
    Ok(vec![step(&WORKER_GROUP, object, workers), step(&CLUSTER, &cluster.object_name, root)])
}

fn patch(kind: &'static ResourceKind, name: &str, operations: Vec<Value>) -> ObjectWrite {
    ObjectWrite { kind, name: name.to_owned(), operation: WriteOperation::JsonPatch(operations) }
}
