//! The flavor `kuberay`: Ray clusters as `RayCluster` objects of the KubeRay operator.

mod manifests;
mod project;
mod version;

use std::collections::BTreeMap;

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::principal::Owner;
use serde_json::{Value, json};

use super::flavor::{
    Abilities, DesiredCluster, Flavor, GroupResize, ObjectWrite, PodMembership, WriteOperation,
};
use super::object::{Manifest, ObjectRole, ResourceKind, WatchedKind};
use super::patch::{add, replaced_entries, test};
use super::pod_change::PodChange;
use super::projection::{GroupProjection, ObjectProjection};
use crate::endpoints::Endpoints;
use manifests::{head, start_parameters, workers};

/// The flavor `kuberay`.
pub(super) struct KubeRay;

const RAY_CLUSTER: ResourceKind =
    ResourceKind { group: "ray.io", version: "v1", kind: "RayCluster", plural: "rayclusters" };

const WATCHED: &[WatchedKind] = &[WatchedKind { kind: &RAY_CLUSTER, selector: "", role: ObjectRole::Root }];

/// The label with the user who created the cluster, as KubeRay's own API server writes it.
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
            replaces_workers: true,
            several_groups: true,
            // The head loses its state with its pod, unless the object configures fault tolerance.
            workers_outlive_head: false,
        }
    }

    fn max_name_length(&self) -> usize {
        53
    }

    fn watched_kinds(&self) -> &'static [WatchedKind] {
        WATCHED
    }

    fn pod_selector(&self) -> &'static str {
        "ray.io/cluster"
    }

    fn read_member(&self, labels: &BTreeMap<String, String>) -> Option<PodMembership> {
        let (role, group) = match labels.get("ray.io/node-type")?.as_str() {
            "head" => (NodeRole::Head, None),
            "worker" => (NodeRole::Worker, labels.get("ray.io/group").cloned()),
            // Pods of submitted jobs are not members.
            _ => return None,
        };
        Some(PodMembership { cluster: labels.get("ray.io/cluster")?.clone(), role, group, keeps_name: false })
    }

    fn manifests(&self, plan: DesiredCluster<'_>) -> Result<Vec<Manifest>, String> {
        manifests::manifests(plan)
    }

    fn check_creation(&self, DesiredCluster { cluster, recipe }: DesiredCluster<'_>) -> Result<(), String> {
        // Only start parameters can be invalid; all other settings are supported.
        let groups = cluster.groups.iter().map(|group| recipe.workers(Some(group)));
        std::iter::once(recipe.head())
            .chain(groups)
            .try_for_each(|node| start_parameters(&node, &[]).map(drop))
    }

    fn read_object(&self, _: &ResourceKind, object: &Value) -> Option<ObjectProjection> {
        Some(project::project_object(object))
    }

    fn shows_root(&self) -> bool {
        true
    }

    fn root_view(&self, root: &Value) -> Value {
        project::root_view(root)
    }

    fn rejection_reasons(&self) -> &'static [&'static str] {
        &["InvalidRayClusterSpec", "InvalidRayClusterMetadata", "InvalidRayClusterStatus"]
    }

    fn resize_groups(
        &self,
        cluster: &str,
        objects: &[&ObjectProjection],
        changes: &[GroupResize<'_>],
    ) -> Result<Vec<ObjectWrite>, String> {
        let mut operations = Vec::new();
        for change in changes {
            let group = group(objects, change.group)?;
            operations.extend(group_operations(group, change)?);
        }
        Ok(vec![json_patch(cluster, operations)])
    }

    fn change_recipe(
        &self,
        before: DesiredCluster<'_>,
        after: DesiredCluster<'_>,
        objects: &[&ObjectProjection],
    ) -> Result<Vec<ObjectWrite>, String> {
        // The pods of discovered clusters may have no annotations, and a patch of a missing map fails.
        let mut patch = RecipePatch { annotates: !after.cluster.is_external(), ..RecipePatch::default() };
        patch.add("/spec/headGroupSpec", &head(before)?, &head(after)?);
        for wanted in &after.cluster.groups {
            let group = group(objects, &wanted.name)?;
            let path = format!("/spec/workerGroupSpecs/{}", group.index);
            let made = |plan: DesiredCluster<'_>| workers(plan, plan.cluster.group(&wanted.name));
            if patch.add(&path, &made(before)?, &made(after)?) {
                patch.tests.push(test(&format!("{path}/groupName"), &json!(group.name)));
            }
        }
        let observed = objects.iter().find_map(|object| object.version.as_deref());
        patch.version = version::operations(before, after, observed);
        Ok(patch.steps(&after.cluster.object_name))
    }

    fn check_recipe_change(&self, _: DesiredCluster<'_>, after: DesiredCluster<'_>) -> Result<(), String> {
        self.check_creation(after)
    }

    fn clean_up_resize(&self, cluster: &str, objects: &[&ObjectProjection]) -> Vec<ObjectWrite> {
        let named =
            objects.iter().flat_map(|object| &object.groups).filter(|group| !group.victims.is_empty());
        let operations: Vec<Value> = named
            .flat_map(|group| {
                let path = format!("/spec/workerGroupSpecs/{}", group.index);
                [
                    test(&format!("{path}/groupName"), &json!(group.name)),
                    json!({"op": "remove", "path": format!("{path}/scaleStrategy/workersToDelete")}),
                ]
            })
            .collect();
        if operations.is_empty() { Vec::new() } else { vec![json_patch(cluster, operations)] }
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

    fn token_secret(&self, cluster: &str) -> Option<(String, &'static str)> {
        Some((cluster.to_owned(), "auth_token"))
    }

    fn client_environment(&self, endpoints: &Endpoints, token: Option<&str>) -> BTreeMap<String, String> {
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

fn group<'w>(objects: &[&'w ObjectProjection], name: &str) -> Result<&'w GroupProjection, String> {
    let mut groups = objects.iter().flat_map(|object| &object.groups);
    groups.find(|group| group.name == name).ok_or_else(|| format!("there is no group '{name}' any more"))
}

fn group_operations(group: &GroupProjection, change: &GroupResize<'_>) -> Result<Vec<Value>, String> {
    let path = format!("/spec/workerGroupSpecs/{}", group.index);
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

/// The writes of a changed recipe.
#[derive(Default)]
struct RecipePatch {
    /// True if the annotations of pods are changed, too.
    annotates: bool,
    tests: Vec<Value>,
    pods: Vec<PodChange>,
    parameters: Vec<Value>,
    version: Vec<Value>,
}

impl RecipePatch {
    /// Adds the differences of the head or of a group, and returns whether there are any.
    fn add(&mut self, path: &str, before: &Value, after: &Value) -> bool {
        let pod = |rendered: &Value| rendered["template"]["spec"].clone();
        let change = PodChange::new(format!("{path}/template/spec"), pod(before), pod(after));
        let parameters = replaced_entries(
            &format!("{path}/rayStartParams"),
            &before["rayStartParams"],
            &after["rayStartParams"],
        );
        if self.annotates {
            let annotations = |rendered: &Value| rendered["template"]["metadata"]["annotations"].clone();
            let path = format!("{path}/template/metadata/annotations");
            self.parameters.extend(replaced_entries(&path, &annotations(before), &annotations(after)));
        }
        let differs = change.is_some() || !parameters.is_empty();
        self.pods.extend(change);
        self.parameters.extend(parameters);
        differs
    }

    fn steps(self, cluster: &str) -> Vec<ObjectWrite> {
        let Self { annotates: _, tests, pods, parameters, version } = self;
        let operations = tests.into_iter().chain(parameters).chain(version).collect();
        let pods = ObjectWrite {
            kind: &RAY_CLUSTER,
            name: cluster.to_owned(),
            operation: WriteOperation::PodChanges(pods),
        };
        vec![json_patch(cluster, operations), pods]
    }
}

fn json_patch(cluster: &str, operations: Vec<Value>) -> ObjectWrite {
    ObjectWrite {
        kind: &RAY_CLUSTER,
        name: cluster.to_owned(),
        operation: WriteOperation::JsonPatch(operations),
    }
}

#[cfg(test)]
mod tests;
