//! Ray by the KubeRay operator: a `RayCluster` of group `ray.io`.

mod make;
mod read;

use std::collections::BTreeMap;

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::principal::Owner;
use serde_json::{Value, json};

use super::flavor::{Abilities, Deed, Flavor, Member, Plan, Resize, Step};
use super::object::{Kind, Manifest, Part, Watched};
use super::patch::{add, replaced_entries, test};
use super::pod_change::PodChange;
use super::words::{GroupWords, Words};
use crate::endpoints::Endpoints;
use make::{head, start_parameters, workers};

/// Ray by its operator.
pub(super) struct KubeRay;

const RAY_CLUSTER: Kind = Kind { group: "ray.io", version: "v1", kind: "RayCluster", plural: "rayclusters" };

const WATCHED: &[Watched] = &[Watched { kind: &RAY_CLUSTER, selector: "", part: Part::Root }];

/// Who made it, as KubeRay's own API server writes it.
const RAY_USER: &str = "ray.io/user";

impl Flavor for KubeRay {
    fn name(&self) -> &'static str {
        "kuberay"
    }

    fn framework(&self) -> Framework {
        Framework::Ray
    }

    fn operator(&self) -> Option<&'static str> {
        Some("the KubeRay operator (rayclusters.ray.io)")
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            choose_victims: true,
            rolls: false,
            several_groups: true,
            // What the head knows is lost with it, unless its object says otherwise.
            workers_outlive_head: false,
        }
    }

    fn longest_name(&self) -> usize {
        53
    }

    fn watched(&self) -> &'static [Watched] {
        WATCHED
    }

    fn pods(&self) -> &'static str {
        "ray.io/cluster"
    }

    fn member(&self, labels: &BTreeMap<String, String>) -> Option<Member> {
        let (role, group) = match labels.get("ray.io/node-type")?.as_str() {
            "head" => (NodeRole::Head, None),
            "worker" => (NodeRole::Worker, labels.get("ray.io/group").cloned()),
            // A job that was submitted is no member.
            _ => return None,
        };
        Some(Member { cluster: labels.get("ray.io/cluster")?.clone(), role, group, keeps_name: false })
    }

    fn manifests(&self, plan: Plan<'_>) -> Result<Vec<Manifest>, String> {
        make::manifests(plan)
    }

    fn check(&self, Plan { cluster, recipe }: Plan<'_>) -> Result<(), String> {
        // All else that can be said is possible.
        let groups = cluster.groups.iter().map(|group| recipe.workers(Some(group)));
        std::iter::once(recipe.head())
            .chain(groups)
            .try_for_each(|node| start_parameters(&node, &[]).map(drop))
    }

    fn read(&self, _: &Kind, object: &Value) -> Option<Words> {
        Some(read::words(object))
    }

    fn is_shown(&self) -> bool {
        true
    }

    fn shown(&self, root: &Value) -> Value {
        read::shown(root)
    }

    fn refusals(&self) -> &'static [&'static str] {
        &["InvalidRayClusterSpec", "InvalidRayClusterMetadata", "InvalidRayClusterStatus"]
    }

    fn resize(&self, cluster: &str, words: &[&Words], changes: &[Resize<'_>]) -> Result<Vec<Step>, String> {
        let mut operations = Vec::new();
        for change in changes {
            let group = group(words, change.group)?;
            operations.extend(resize(group, change)?);
        }
        Ok(vec![patch(cluster, operations)])
    }

    fn remake(&self, before: Plan<'_>, after: Plan<'_>, words: &[&Words]) -> Result<Vec<Step>, String> {
        // Objects of others may have no annotations that could be changed.
        let mut remade = Remade { annotates: !after.cluster.is_external(), ..Remade::default() };
        remade.add("/spec/headGroupSpec", &head(before)?, &head(after)?);
        for wanted in &after.cluster.groups {
            let group = group(words, &wanted.name)?;
            let path = format!("/spec/workerGroupSpecs/{}", group.place);
            let made = |plan: Plan<'_>| workers(plan, plan.cluster.group(&wanted.name));
            if remade.add(&path, &made(before)?, &made(after)?) {
                remade.tests.push(test(&format!("{path}/groupName"), &json!(group.name)));
            }
        }
        Ok(remade.steps(&after.cluster.object_name))
    }

    fn check_remake(&self, _: Plan<'_>, after: Plan<'_>) -> Result<(), String> {
        self.check(after)
    }

    fn settle(&self, cluster: &str, words: &[&Words]) -> Vec<Step> {
        let named = words.iter().flat_map(|words| &words.groups).filter(|group| !group.victims.is_empty());
        let operations: Vec<Value> = named
            .flat_map(|group| {
                let path = format!("/spec/workerGroupSpecs/{}", group.place);
                [
                    test(&format!("{path}/groupName"), &json!(group.name)),
                    json!({"op": "remove", "path": format!("{path}/scaleStrategy/workersToDelete")}),
                ]
            })
            .collect();
        if operations.is_empty() { Vec::new() } else { vec![patch(cluster, operations)] }
    }

    fn owner(&self, labels: &BTreeMap<String, String>) -> Owner {
        labels.get(RAY_USER).map(|user| Owner::of_scheme(self.name(), user)).unwrap_or_default()
    }

    fn user(&self, labels: &BTreeMap<String, String>) -> String {
        labels.get(RAY_USER).cloned().unwrap_or_default()
    }

    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints {
        let host = format!("{cluster}-head-svc.{namespace}.svc");
        Endpoints::default()
            .with(Endpoints::ADDRESS, format!("ray://{host}:10001"))
            .with(Endpoints::DASHBOARD, format!("http://{host}:8265"))
            .with("gcs", format!("{host}:6379"))
    }

    fn token(&self, cluster: &str) -> Option<(String, &'static str)> {
        Some((cluster.to_owned(), "auth_token"))
    }

    fn environment(&self, endpoints: &Endpoints, token: Option<&str>) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        let mut add = |name: &str, value: Option<&str>| {
            variables.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        };
        add("RAY_ADDRESS", endpoints.get(Endpoints::ADDRESS));
        add("RAY_API_SERVER_ADDRESS", endpoints.get(Endpoints::DASHBOARD));
        add("RAY_AUTH_MODE", token.map(|_| "token"));
        add("RAY_AUTH_TOKEN", token);
        variables
    }
}

fn group<'w>(words: &[&'w Words], name: &str) -> Result<&'w GroupWords, String> {
    let mut groups = words.iter().flat_map(|words| &words.groups);
    groups.find(|group| group.name == name).ok_or_else(|| format!("there is no group '{name}' any more"))
}

fn resize(group: &GroupWords, change: &Resize<'_>) -> Result<Vec<Value>, String> {
    let path = format!("/spec/workerGroupSpecs/{}", group.place);
    let mut operations = vec![test(&format!("{path}/groupName"), &json!(group.name))];
    let replicas = |workers: u32| {
        if workers.is_multiple_of(group.hosts) {
            return Ok(workers / group.hosts);
        }
        Err(format!(
            "group '{}' grows and shrinks by {} at once: {workers} is not possible",
            group.name, group.hosts
        ))
    };
    if let Some(desired) = change.desired {
        operations.push(add(&format!("{path}/replicas"), &json!(replicas(desired)?)));
    }
    if let Some((min, max)) = change.bounds {
        operations.push(add(&format!("{path}/minReplicas"), &json!(replicas(min)?)));
        let max = max.map(replicas).transpose()?.map_or(json!(i32::MAX), Value::from);
        operations.push(add(&format!("{path}/maxReplicas"), &max));
    }
    if !change.victims.is_empty() {
        let pods: Vec<&str> = change.victims.iter().map(|victim| victim.pod.as_str()).collect();
        operations.push(add(&format!("{path}/scaleStrategy"), &json!({"workersToDelete": pods})));
    }
    Ok(operations)
}

/// What is written for a changed recipe.
#[derive(Default)]
struct Remade {
    /// Whether the annotations of pods are changed too.
    annotates: bool,
    tests: Vec<Value>,
    pods: Vec<PodChange>,
    parameters: Vec<Value>,
}

impl Remade {
    /// Adds what differs in the head or in a group; whether anything does.
    fn add(&mut self, path: &str, before: &Value, after: &Value) -> bool {
        let pod = |made: &Value| made["template"]["spec"].clone();
        let change = PodChange::new(format!("{path}/template/spec"), pod(before), pod(after));
        let parameters = replaced_entries(
            &format!("{path}/rayStartParams"),
            &before["rayStartParams"],
            &after["rayStartParams"],
        );
        if self.annotates {
            let annotations = |made: &Value| made["template"]["metadata"]["annotations"].clone();
            let path = format!("{path}/template/metadata/annotations");
            self.parameters.extend(replaced_entries(&path, &annotations(before), &annotations(after)));
        }
        let differs = change.is_some() || !parameters.is_empty();
        self.pods.extend(change);
        self.parameters.extend(parameters);
        differs
    }

    fn steps(self, cluster: &str) -> Vec<Step> {
        let Self { annotates: _, tests, pods, parameters } = self;
        let operations = tests.into_iter().chain(parameters).collect();
        let pods = Step { kind: &RAY_CLUSTER, name: cluster.to_owned(), deed: Deed::Pods(pods) };
        vec![patch(cluster, operations), pods]
    }
}

fn patch(cluster: &str, operations: Vec<Value>) -> Step {
    Step { kind: &RAY_CLUSTER, name: cluster.to_owned(), deed: Deed::Patch(operations) }
}

#[cfg(test)]
mod tests;
