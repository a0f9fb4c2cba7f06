//! The flavor `dask-operator`: Dask clusters as a `DaskCluster`, with a `DaskWorkerGroup` for each group.

mod manifests;
mod project;
mod writes;

use std::collections::BTreeMap;

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use serde_json::{Value, json};

use super::flavor::{
    Abilities, DesiredCluster, Flavor, GroupResize, ObjectWrite, PodMembership, WriteOperation,
};
use super::object::{DEPLOYMENT, Manifest, ObjectRole, ResourceKind, WatchedKind};
use super::projection::ObjectProjection;
use crate::endpoints::Endpoints;

/// The flavor `dask-operator`.
pub(super) struct DaskOperator;

const fn kind(kind: &'static str, plural: &'static str) -> ResourceKind {
    ResourceKind { group: "kubernetes.dask.org", version: "v1", kind, plural }
}

const CLUSTER: ResourceKind = kind("DaskCluster", "daskclusters");
const WORKER_GROUP: ResourceKind = kind("DaskWorkerGroup", "daskworkergroups");
const AUTOSCALER: ResourceKind = kind("DaskAutoscaler", "daskautoscalers");

/// The label with the cluster's name, on all of its objects and pods.
const CLUSTER_NAME: &str = "dask.org/cluster-name";

/// The annotation of clusters that Muster created with an autoscaler.
const AUTOSCALED: &str = "muster.dev/autoscaled";

/// The part of such a cluster that a `DaskAutoscaler` is, as messages name it.
const AUTOSCALER_PART: &str = "its autoscaler";

const WATCHED: &[WatchedKind] = &[
    WatchedKind { kind: &CLUSTER, selector: "", role: ObjectRole::Root },
    WatchedKind { kind: &WORKER_GROUP, selector: "", role: ObjectRole::Detail },
    WatchedKind { kind: &AUTOSCALER, selector: "", role: ObjectRole::Detail },
    WatchedKind { kind: &DEPLOYMENT, selector: CLUSTER_NAME, role: ObjectRole::PodController },
];

impl Flavor for DaskOperator {
    fn name(&self) -> &'static str {
        "dask-operator"
    }

    fn framework(&self) -> Framework {
        Framework::Dask
    }

    fn operator(&self) -> Option<&'static str> {
        Some("the Dask operator (daskclusters.kubernetes.dask.org)")
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            choose_victims: true,
            rolls: false,
            // The Deployment of a worker recreates the pod from the template that the operator wrote at first.
            replaces_workers: false,
            several_groups: false,
            // The task graph is lost with the scheduler, and the next one cannot use the data of the workers.
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
        CLUSTER_NAME
    }

    fn read_member(&self, labels: &BTreeMap<String, String>) -> Option<PodMembership> {
        let cluster = labels.get(CLUSTER_NAME)?.clone();
        let (role, group) = match labels.get("dask.org/component")?.as_str() {
            "scheduler" => (NodeRole::Head, None),
            "worker" => {
                let object = labels.get("dask.org/workergroup-name")?;
                (NodeRole::Worker, Some(group_name(&cluster, object)))
            }
            // Pods of jobs are not members.
            _ => return None,
        };
        Some(PodMembership { cluster, role, group, keeps_name: false })
    }

    fn manifests(&self, plan: DesiredCluster<'_>) -> Result<Vec<Manifest>, String> {
        manifests::manifests(plan, self.name())
    }

    fn missing_objects(&self, cluster: &str, objects: &[&ObjectProjection]) -> Vec<String> {
        let has = |part: &str| objects.iter().any(|object| object.part == Some(part));
        let is_missing = has(AUTOSCALED) && !has(AUTOSCALER_PART);
        is_missing.then(|| format!("DaskAutoscaler '{cluster}' ({AUTOSCALER_PART})")).into_iter().collect()
    }

    fn is_complete(&self, objects: &[&ObjectProjection]) -> bool {
        self.missing_objects("", objects).is_empty()
    }

    fn read_object(&self, kind: &ResourceKind, object: &Value) -> Option<ObjectProjection> {
        project::project_object(kind, object)
    }

    fn resize_groups(
        &self,
        _: &str,
        objects: &[&ObjectProjection],
        changes: &[GroupResize<'_>],
    ) -> Result<Vec<ObjectWrite>, String> {
        writes::resize(objects, changes)
    }

    fn change_recipe(
        &self,
        before: DesiredCluster<'_>,
        after: DesiredCluster<'_>,
        objects: &[&ObjectProjection],
    ) -> Result<Vec<ObjectWrite>, String> {
        writes::remake(before, after, objects)
    }

    fn check_recipe_change(
        &self,
        before: DesiredCluster<'_>,
        after: DesiredCluster<'_>,
    ) -> Result<(), String> {
        // The operator creates the scheduler's Deployment once, and ignores later changes of its spec in the root.
        if before.recipe.head() == after.recipe.head() {
            return Ok(());
        }
        Err("the Dask operator does not apply another image, shape or environment to a scheduler that exists: change \
             those of the workers by their group, or create another cluster"
            .to_owned())
    }

    fn recreate_head(&self, cluster: &str) -> Option<ObjectWrite> {
        // The operator creates missing objects only in phase Created.
        let operation = WriteOperation::Merge(json!({"status": {"phase": "Created"}}));
        Some(ObjectWrite { kind: &CLUSTER, name: cluster.to_owned(), operation })
    }

    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints {
        let host = format!("{cluster}-scheduler.{namespace}.svc");
        Endpoints::default()
            .with(Endpoints::ADDRESS, format!("tcp://{host}:8786"))
            .with(Endpoints::DASHBOARD, format!("http://{host}:8787/status"))
    }

    fn client_environment(&self, endpoints: &Endpoints, _: Option<&str>) -> BTreeMap<String, String> {
        crate::dask::environment(endpoints)
    }
}

/// Returns the name of a group by its object: without the prefix of the cluster's name, if it has that.
fn group_name(cluster: &str, object: &str) -> String {
    let own = object.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-'));
    own.filter(|own| !own.is_empty()).unwrap_or(object).to_owned()
}

#[cfg(test)]
mod tests;
