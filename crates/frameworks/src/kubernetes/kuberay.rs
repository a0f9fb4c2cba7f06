//! Ray by the KubeRay operator: a `RayCluster` of group `ray.io`.

mod read;

use std::collections::BTreeMap;

use muster_core::cluster::{Framework, WorkerGroup};
use muster_core::node::NodeRole;
use muster_core::principal::Owner;
use muster_core::recipe::NodeRecipe;
use serde_json::{Value, json};

use super::flavor::{Abilities, Deed, Flavor, Member, Plan, Resize, Step};
use super::metadata::USER;
use super::object::{Kind, Manifest, Part, Watched};
use super::patch::{add, replaced_entries, test};
use super::pod::{self, Container};
use super::pod_change::PodChange;
use super::words::{GroupWords, Words};
use crate::endpoints::Endpoints;

/// Ray by its operator.
pub(super) struct KubeRay;

const RAY_CLUSTER: Kind = Kind { group: "ray.io", version: "v1", kind: "RayCluster", plural: "rayclusters" };

const WATCHED: &[Watched] = &[Watched { kind: &RAY_CLUSTER, selector: "", part: Part::Root }];

/// The first version of Ray that asks for a token.
const FIRST_WITH_TOKEN: (u32, u32) = (2, 52);

/// Who made it, as KubeRay's own API server writes it.
const RAY_USER: &str = "ray.io/user";

const HEAD: &str = "ray-head";
const WORKER: &str = "ray-worker";

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
        let Plan { cluster, recipe } = plan;
        let version = recipe.version.as_deref();
        let mut spec = json!({
            "headGroupSpec": head(plan)?,
            "workerGroupSpecs": cluster.groups.iter().map(|group| worker_group(plan, group)).collect::<Result<Vec<_>, _>>()?,
        });
        let version =
            version.map_or_else(|| version_of_image(recipe.image.as_deref()), |given| Some(given.to_owned()));
        if let Some(service) = recipe.head().pod.service_type {
            spec["headGroupSpec"]["serviceType"] = service.into();
        }
        if let Some(version) = version {
            spec["rayVersion"] = version.clone().into();
            if has_token(&version) {
                spec["authOptions"] = json!({"mode": "token"});
            }
            Ok(vec![manifest(plan, &version, &spec)])
        } else {
            Ok(vec![manifest(plan, "", &spec)])
        }
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
        let mut remade = Remade::default();
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

/// The labels are those of KubeRay's own API server, so that each finds what the other made.
fn manifest(plan: Plan<'_>, version: &str, spec: &Value) -> Manifest {
    let cluster = plan.cluster;
    let user = pod::label_safe(&cluster.user);
    let mut metadata = json!({"name": cluster.object_name, "namespace": cluster.namespace, "labels": {
        "app.kubernetes.io/managed-by": "kuberay-apiserver",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster-name": cluster.object_name,
        "ray.io/environment": plan.recipe.environment.as_deref().unwrap_or("DEV"),
        RAY_USER: user,
        "ray.io/version": pod::label_safe(version),
    }});
    if user != cluster.user {
        metadata["annotations"] = json!({USER: cluster.user});
    }
    let body = json!({
        "apiVersion": RAY_CLUSTER.api_version(),
        "kind": RAY_CLUSTER.kind,
        "metadata": metadata,
        "spec": spec,
    });
    Manifest { kind: &RAY_CLUSTER, body, owned: false }
}

fn default_image(version: Option<&str>) -> String {
    let version = version.unwrap_or_else(|| pod::pinned(include_str!("../../pins/ray.txt"), "ray"));
    format!("rayproject/ray:{version}")
}

/// The version that an image's tag names; that of the default image if there is no other.
fn version_of_image(image: Option<&str>) -> Option<String> {
    let default = default_image(None);
    let tag = image.unwrap_or(&default).rsplit_once(':')?.1;
    let version = tag.split('-').next()?;
    numbers(version).map(|_| version.to_owned())
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn has_token(version: &str) -> bool {
    numbers(version).is_some_and(|version| version >= FIRST_WITH_TOKEN)
}

fn head_template(node: &NodeRecipe, version: Option<&str>) -> Value {
    let container = Container {
        name: HEAD,
        image: &default_image(version),
        node,
        environment: vec![pod::field("MY_POD_IP", "status.podIP")],
        ports: vec![
            pod::port("redis", 6379),
            pod::port("head", 10001),
            pod::port("dashboard", 8265),
            pod::port("metrics", 8080),
        ],
    };
    template(&container.json(), node)
}

fn worker_template(node: &NodeRecipe, version: Option<&str>) -> Value {
    let container = Container {
        name: WORKER,
        image: &default_image(version),
        node,
        environment: vec![
            pod::variable("RAY_DISABLE_DOCKER_CPU_WARNING", "1"),
            pod::variable("TYPE", "worker"),
            pod::amount("CPU_REQUEST", WORKER, "requests.cpu"),
            pod::amount("CPU_LIMITS", WORKER, "limits.cpu"),
            pod::amount("MEMORY_REQUESTS", WORKER, "requests.memory"),
            pod::amount("MEMORY_LIMITS", WORKER, "limits.memory"),
            pod::field("MY_POD_NAME", "metadata.name"),
            pod::field("MY_POD_IP", "status.podIP"),
        ],
        ports: Vec::new(),
    };
    let mut container = container.json();
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}});
    template(&container, node)
}

fn template(container: &Value, node: &NodeRecipe) -> Value {
    let image = node.image.clone().unwrap_or_default();
    let mut annotations = BTreeMap::from([("ray.io/compute-image".to_owned(), image)]);
    annotations.extend(node.shape.clone().map(|shape| ("ray.io/compute-template".to_owned(), shape)));
    annotations.extend(node.pod.annotations.clone());
    let mut metadata = json!({"annotations": annotations});
    if !node.pod.labels.is_empty() {
        metadata["labels"] = json!(node.pod.labels);
    }
    let spec = pod::furnished(json!({"containers": [container]}), node);
    json!({"metadata": metadata, "spec": spec})
}

/// What a head is made from.
fn head(plan: Plan<'_>) -> Result<Value, String> {
    let node = plan.recipe.head();
    Ok(json!({
        "rayStartParams": start_parameters(&node, &[("dashboard-host", "0.0.0.0")])?,
        "template": head_template(&node, plan.recipe.version.as_deref()),
    }))
}

/// What the workers of a group are made from.
fn workers(plan: Plan<'_>, group: Option<&WorkerGroup>) -> Result<Value, String> {
    let node = plan.recipe.workers(group);
    Ok(json!({
        "rayStartParams": start_parameters(&node, &[])?,
        "template": worker_template(&node, plan.recipe.version.as_deref()),
    }))
}

fn worker_group(plan: Plan<'_>, group: &WorkerGroup) -> Result<Value, String> {
    let mut spec = workers(plan, Some(group))?;
    spec["groupName"] = group.name.as_str().into();
    spec["replicas"] = group.desired.into();
    spec["minReplicas"] = group.min.into();
    // Without a number there is no bound.
    if let Some(max) = group.max {
        spec["maxReplicas"] = max.into();
    }
    Ok(spec)
}

/// Arguments of the start command, as the operator takes them: names and values.
fn start_parameters(node: &NodeRecipe, own: &[(&str, &str)]) -> Result<Value, String> {
    let mut parameters: BTreeMap<String, String> =
        own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    parameters.extend(node.pod.start_parameters.clone());
    for argument in &node.args {
        let named = argument.strip_prefix("--").and_then(|rest| {
            let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        });
        let Some((name, value)) = named else {
            return Err(format!("argument '{argument}' is not possible: write --name=value"));
        };
        parameters.insert(name, value);
    }
    Ok(json!(parameters))
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
        let differs = change.is_some() || !parameters.is_empty();
        self.pods.extend(change);
        self.parameters.extend(parameters);
        differs
    }

    fn steps(self, cluster: &str) -> Vec<Step> {
        let Self { tests, pods, parameters } = self;
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
