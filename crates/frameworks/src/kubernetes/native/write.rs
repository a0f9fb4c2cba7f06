//! What is written to the Deployments of a Spark cluster.

use muster_core::recipe::ClusterRecipe;
use serde_json::{Value, json};

use super::{CONFIG, make, settings};
use crate::kubernetes::flavor::{Deed, Plan, Resize, Step, Victim};
use crate::kubernetes::metadata::only_group;
use crate::kubernetes::object::{DEPLOYMENT, POD};
use crate::kubernetes::patch::add;
use crate::kubernetes::pod_change::PodChange;
use crate::kubernetes::words::Words;

/// What makes a pod the first to go, other than not being ready.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn resize(words: &[&Words], changes: &[Resize<'_>]) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for change in changes {
        let workers = workers(words, change.group)?;
        steps.extend(change.victims.iter().map(first_to_go));
        // Bounds are only the row's: the object has no word for them.
        let replicas = change.desired.map(|desired| add("/spec/replicas", &json!(desired)));
        steps.push(patch(&workers.object, replicas.into_iter().collect()));
        steps.extend(change.desired.and_then(|desired| told(words, desired)));
    }
    Ok(steps)
}

fn first_to_go(victim: &Victim) -> Step {
    let body = json!({"metadata": {"annotations": {DELETION_COST: "-1000"}}});
    Step { kind: &POD, name: victim.pod.clone(), deed: Deed::Merge(body) }
}

/// Who knows clusters of Oshinko reads their size from the master.
fn told(words: &[&Words], workers: u32) -> Option<Step> {
    let root = words.first()?;
    let config = root.config.as_deref().and_then(|config| settings::resized(config, workers));
    let config =
        config.unwrap_or_else(|| settings::config(&ClusterRecipe::default(), workers, &root.head.image));
    let body = json!({"metadata": {"annotations": {CONFIG: config}}});
    Some(Step { kind: &DEPLOYMENT, name: root.object.clone(), deed: Deed::Merge(body) })
}

fn workers<'w>(words: &[&'w Words], group: &str) -> Result<&'w Words, String> {
    let mut all = words.iter().copied();
    let own = all.find(|words| words.groups.iter().any(|own| own.name == group));
    own.ok_or_else(|| format!("there is no Deployment of workers of group '{group}'"))
}

pub(super) fn remake(
    before: Plan<'_>,
    after: Plan<'_>,
    words: &[&Words],
    flavor: &str,
) -> Result<Vec<Step>, String> {
    let group = only_group(after.cluster, flavor)?;
    let name = &after.cluster.object_name;
    let workers = workers(words, &group.name)?;
    let root = words.first().ok_or_else(|| "there is no Deployment of the master".to_owned())?;
    let changed = |made: &dyn Fn(Plan<'_>) -> Value| {
        PodChange::new("/spec/template/spec", made(before), made(after)).into_iter().collect()
    };
    let worker = |Plan { cluster, recipe }: Plan<'_>| {
        make::worker(recipe, &recipe.workers(cluster.group(&group.name)), name)
    };
    let master = |plan: Plan<'_>| make::master(plan.recipe, name);
    let step =
        |name: &str, changes| Step { kind: &DEPLOYMENT, name: name.to_owned(), deed: Deed::Pods(changes) };
    Ok(vec![step(&workers.object, changed(&worker)), step(&root.object, changed(&master))])
}

fn patch(name: &str, operations: Vec<Value>) -> Step {
    Step { kind: &DEPLOYMENT, name: name.to_owned(), deed: Deed::Patch(operations) }
}
