//! What is written to objects of the Dask operator.
//!
//! A worker is a Deployment of its own. Its operator makes what is missing and removes what is too much when the number
//! of a group changes, and at no other time; which go it asks the scheduler, and hangs if that does not answer. So those
//! that were chosen go first, and then the number fits already. Whoever is interrupted in between leaves a group with
//! fewer workers than its number: the same call again, or any other change of the number, puts that right.

use serde_json::{Value, json};

use super::{AUTOSCALER, CLUSTER, WORKER_GROUP, make};
use crate::kubernetes::flavor::{Deed, Plan, Resize, Step, Victim};
use crate::kubernetes::metadata::only_group;
use crate::kubernetes::object::{DEPLOYMENT, Kind};
use crate::kubernetes::patch::add;
use crate::kubernetes::pod_change::PodChange;
use crate::kubernetes::words::Words;

pub(super) fn resize(words: &[&Words], changes: &[Resize<'_>]) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for change in changes {
        let object = object_of(words, change.group)?;
        steps.extend(deletions(object, change.victims));
        let autoscaler = words.iter().find(|words| concerns(words, change.group));
        if let Some((autoscaler, bounds)) = autoscaler.zip(change.bounds) {
            steps.push(patch(&AUTOSCALER, &autoscaler.object, rebound(change.group, bounds)?));
        }
        // Otherwise bounds are only the row's: the object has no word for them.
        let replicas = change.desired.map(|desired| add("/spec/worker/replicas", &json!(desired)));
        steps.push(patch(&WORKER_GROUP, object, replicas.into_iter().collect()));
    }
    Ok(steps)
}

/// The object of a group. The root speaks of one too, and its number must not be written: it is only copied.
fn object_of<'w>(words: &[&'w Words], group: &str) -> Result<&'w str, String> {
    let mut objects = words.iter().skip(1);
    let own = objects.find(|words| words.groups.iter().any(|own| own.name == group));
    own.map(|words| words.object.as_str())
        .ok_or_else(|| format!("there is no DaskWorkerGroup of group '{group}'"))
}

fn concerns(words: &Words, group: &str) -> bool {
    let of_group = words.autoscaler.as_ref().and_then(|autoscaler| autoscaler.group.as_deref());
    of_group == Some(group)
}

fn rebound(group: &str, (min, max): (u32, Option<u32>)) -> Result<Vec<Value>, String> {
    let max = max.ok_or_else(|| format!("the autoscaler of group '{group}' needs a largest size"))?;
    Ok(vec![add("/spec/minimum", &json!(min)), add("/spec/maximum", &json!(max))])
}

fn deletions(group: &str, victims: &[Victim]) -> Vec<Step> {
    let of_group = format!("{group}-worker-");
    let deployment = |victim: &Victim| {
        // The name of a replica set is that of its Deployment and a hash.
        let (name, _) = victim.controller.as_deref()?.rsplit_once('-')?;
        // Whatever else made that pod is none of the operator's.
        name.starts_with(&of_group).then(|| name.to_owned())
    };
    let delete = |name: String| Step { kind: &DEPLOYMENT, name, deed: Deed::Delete };
    victims.iter().filter_map(deployment).map(delete).collect()
}

pub(super) fn remake(before: Plan<'_>, after: Plan<'_>, words: &[&Words]) -> Result<Vec<Step>, String> {
    let cluster = after.cluster;
    let group = only_group(cluster, "dask-operator")?;
    let object = object_of(words, &group.name)?;
    let worker = |Plan { cluster, recipe }: Plan<'_>| {
        make::worker(recipe, &recipe.workers(cluster.group(&group.name)))
    };
    let workers = PodChange::new("/spec/worker/spec", worker(before), worker(after));
    let scheduler = |plan: Plan<'_>| make::scheduler(plan.recipe);
    let scheduler = PodChange::new("/spec/scheduler/spec", scheduler(before), scheduler(after));
    let step = |kind, name: &str, changes| Step { kind, name: name.to_owned(), deed: Deed::Pods(changes) };
    // What the root says of workers counts when its operator recreates the group.
    let root = scheduler.into_iter().chain(workers.clone()).collect();
    let workers = workers.into_iter().collect();
    Ok(vec![step(&WORKER_GROUP, object, workers), step(&CLUSTER, &cluster.object_name, root)])
}

fn patch(kind: &'static Kind, name: &str, operations: Vec<Value>) -> Step {
    Step { kind, name: name.to_owned(), deed: Deed::Patch(operations) }
}
