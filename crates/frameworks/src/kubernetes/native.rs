//! The flavor `native`: Spark without an operator, as a Deployment for the master, one for the workers, and Services.
//!
//! Names, labels and variables are those of Oshinko, so that its existing clients work with these clusters.

mod manifests;
mod project;
mod settings;
mod writes;

use std::collections::BTreeMap;

use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_core::node::NodeRole;
use serde_json::Value;

use super::flavor::{Abilities, DesiredCluster, Flavor, GroupResize, ObjectWrite, PodMembership};
use super::object::{DEPLOYMENT, Manifest, ObjectRole, ResourceKind, SERVICE, WatchedKind};
use super::projection::ObjectProjection;
use crate::endpoints::Endpoints;

/// The flavor `native`.
pub(super) struct Native;

/// The label with the cluster's name, on all of its objects and pods.
const CLUSTER: &str = "oshinko-cluster";
/// The label with the type of an object: `master`, `worker` or `webui`.
const TYPE: &str = "oshinko-type";
const MASTER: &str = "master";
const WORKER: &str = "worker";

const WEB_UI: &str = "webui";

/// The parts of a cluster beside its master's Deployment, as messages name them.
const WORKERS: &str = "its workers";
const ADDRESS: &str = "its address";
const PAGE: &str = "its page";
const METRICS: &str = "its metrics";

/// The annotation of the master with the configuration that the cluster was created with.
const CONFIG: &str = "oshinko-config";

/// Returns the name of the Service for metrics. Its labels are those of the master's Service, so only the name
/// distinguishes them.
fn metrics_service(cluster: &str) -> String {
    format!("{cluster}-metrics")
}

const WATCHED: &[WatchedKind] = &[
    WatchedKind {
        kind: &DEPLOYMENT,
        selector: "oshinko-cluster,oshinko-type=master",
        role: ObjectRole::Root,
    },
    WatchedKind {
        kind: &DEPLOYMENT,
        selector: "oshinko-cluster,oshinko-type=worker",
        role: ObjectRole::Detail,
    },
    WatchedKind { kind: &SERVICE, selector: "oshinko-cluster,oshinko-type", role: ObjectRole::Detail },
];

impl Flavor for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn framework(&self) -> Framework {
        Framework::Spark
    }

    fn operator(&self) -> Option<&'static str> {
        None
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            choose_victims: true,
            rolls: true,
            replaces_workers: true,
            several_groups: false,
            // Workers find the master by its Service, and register with the next one.
            workers_outlive_head: true,
        }
    }

    fn max_name_length(&self) -> usize {
        // `NAME-ui` must be a DNS label of at most 63 characters.
        60
    }

    fn watched_kinds(&self) -> &'static [WatchedKind] {
        WATCHED
    }

    fn pod_selector(&self) -> &'static str {
        "oshinko-cluster,oshinko-type"
    }

    fn read_member(&self, labels: &BTreeMap<String, String>) -> Option<PodMembership> {
        let (role, group) = match labels.get(TYPE)?.as_str() {
            MASTER => (NodeRole::Head, None),
            WORKER => (NodeRole::Worker, Some(DEFAULT_GROUP.to_owned())),
            _ => return None,
        };
        Some(PodMembership { cluster: labels.get(CLUSTER)?.clone(), role, group, keeps_name: false })
    }

    fn manifests(&self, plan: DesiredCluster<'_>) -> Result<Vec<Manifest>, String> {
        manifests::manifests(plan, self.name())
    }

    fn is_complete(&self, objects: &[&ObjectProjection]) -> bool {
        // The workers' Deployment is created last.
        objects.iter().any(|object| !object.groups.is_empty())
    }

    fn missing_objects(&self, cluster: &str, objects: &[&ObjectProjection]) -> Vec<String> {
        let parts = [
            (WORKERS, format!("Deployment '{cluster}-w'")),
            (ADDRESS, format!("Service '{cluster}'")),
            (PAGE, format!("Service '{cluster}-ui'")),
        ];
        let config = objects.iter().find_map(|object| object.config.as_deref());
        let metrics = config.filter(|config| settings::serves_metrics(config));
        let metrics = metrics.map(|_| (METRICS, format!("Service '{}'", metrics_service(cluster))));
        let missing = parts
            .into_iter()
            .chain(metrics)
            .filter(|(part, _)| objects.iter().all(|object| object.part != Some(part)));
        missing.map(|(part, object)| format!("{object} ({part})")).collect()
    }

    fn read_object(&self, kind: &ResourceKind, object: &Value) -> Option<ObjectProjection> {
        if *kind == SERVICE { project::project_service(object) } else { project::project_object(object) }
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
        writes::remake(before, after, objects, self.name())
    }

    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints {
        Endpoints::default()
            .with(Endpoints::ADDRESS, format!("spark://{cluster}.{namespace}.svc:7077"))
            .with(Endpoints::DASHBOARD, format!("http://{cluster}-ui.{namespace}.svc:8080/"))
    }

    fn client_environment(&self, endpoints: &Endpoints, _: Option<&str>) -> BTreeMap<String, String> {
        crate::spark::environment(endpoints)
    }
}

#[cfg(test)]
mod tests;
