//! The flavor `domino`: Ray, Dask and Spark clusters as objects of Domino's operator, which have the same structure.
//!
//! Domino creates these objects; Muster discovers, scales and changes them. Their stateful sets are not watched: their
//! status does not explain missing pods, and a server with only this flavor then needs no permissions beyond these
//! objects and their pods.

mod image;
mod node_patch;
mod project;
mod writes;

use std::collections::BTreeMap;

use muster_core::change::ClusterUpdate;
use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_core::domino::{FLAVOR, SCHEME, STARTED_BY};
use muster_core::node::NodeRole;
use muster_core::principal::Owner;
use serde_json::Value;

use super::flavor::{Abilities, DesiredCluster, Flavor, GroupResize, ObjectWrite, PodMembership};
use super::object::{Manifest, ObjectRole, ResourceKind, WatchedKind};
use super::projection::ObjectProjection;
use crate::endpoints::Endpoints;

/// The flavor `domino` of one framework.
pub(super) struct DominoFlavor {
    framework: Framework,
    operator: &'static str,
    watched: &'static [WatchedKind],
    pods: &'static str,
    /// The operator's name for a head, in objects and labels of pods.
    head: &'static str,
    longest_name: usize,
}

pub(super) const RAY: DominoFlavor = DominoFlavor {
    framework: Framework::Ray,
    operator: "Domino's operator (rayclusters.distributed-compute.dominodatalab.com)",
    watched: &[root(&RAY_CLUSTER)],
    pods: "app.kubernetes.io/managed-by=distributed-compute-operator,app.kubernetes.io/name=ray",
    head: "head",
    longest_name: 41,
};

pub(super) const DASK: DominoFlavor = DominoFlavor {
    framework: Framework::Dask,
    operator: "Domino's operator (daskclusters.distributed-compute.dominodatalab.com)",
    watched: &[root(&DASK_CLUSTER)],
    pods: "app.kubernetes.io/managed-by=distributed-compute-operator,app.kubernetes.io/name=dask",
    head: "scheduler",
    longest_name: 37,
};

pub(super) const SPARK: DominoFlavor = DominoFlavor {
    framework: Framework::Spark,
    operator: "Domino's operator (sparkclusters.distributed-compute.dominodatalab.com)",
    watched: &[root(&SPARK_CLUSTER)],
    pods: "app.kubernetes.io/managed-by=distributed-compute-operator,app.kubernetes.io/name=spark",
    head: "master",
    longest_name: 39,
};

const RAY_CLUSTER: ResourceKind = kind("RayCluster", "rayclusters");
const DASK_CLUSTER: ResourceKind = kind("DaskCluster", "daskclusters");
const SPARK_CLUSTER: ResourceKind = kind("SparkCluster", "sparkclusters");

const fn kind(kind: &'static str, plural: &'static str) -> ResourceKind {
    ResourceKind { group: "distributed-compute.dominodatalab.com", version: "v1alpha1", kind, plural }
}

const fn root(kind: &'static ResourceKind) -> WatchedKind {
    WatchedKind { kind, selector: "", role: ObjectRole::Root }
}

impl DominoFlavor {
    fn kind(&self) -> &'static ResourceKind {
        self.watched[0].kind
    }
}

impl Flavor for DominoFlavor {
    fn name(&self) -> &'static str {
        FLAVOR
    }

    fn framework(&self) -> Framework {
        self.framework
    }

    fn operator(&self) -> Option<&'static str> {
        Some(self.operator)
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: false,
            // Stateful sets remove the pods with the highest numbers.
            choose_victims: false,
            rolls: true,
            replaces_workers: true,
            several_groups: false,
            // A restarted head keeps its name, and workers are not restarted.
            workers_outlive_head: true,
        }
    }

    fn max_name_length(&self) -> usize {
        self.longest_name
    }

    fn watched_kinds(&self) -> &'static [WatchedKind] {
        self.watched
    }

    fn pod_selector(&self) -> &'static str {
        self.pods
    }

    fn shows_root(&self) -> bool {
        true
    }

    fn root_view(&self, root: &Value) -> Value {
        let mut shown = root.clone();
        if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        shown
    }

    fn read_member(&self, labels: &BTreeMap<String, String>) -> Option<PodMembership> {
        let (role, group) = match labels.get("app.kubernetes.io/component")?.as_str() {
            "worker" => (NodeRole::Worker, Some(DEFAULT_GROUP.to_owned())),
            head if head == self.head => (NodeRole::Head, None),
            _ => return None,
        };
        let cluster = labels.get("app.kubernetes.io/instance")?.clone();
        Some(PodMembership { cluster, role, group, keeps_name: true })
    }

    fn manifests(&self, _: DesiredCluster<'_>) -> Result<Vec<Manifest>, String> {
        Err("clusters of flavor domino are created by Domino: start one there, and Muster will discover it"
            .to_owned())
    }

    fn read_object(&self, _: &ResourceKind, object: &Value) -> Option<ObjectProjection> {
        Some(project::project_object(self.head, object))
    }

    fn resize_groups(
        &self,
        cluster: &str,
        objects: &[&ObjectProjection],
        changes: &[GroupResize<'_>],
    ) -> Result<Vec<ObjectWrite>, String> {
        writes::resize(self.kind(), cluster, objects, changes)
    }

    fn change_recipe(
        &self,
        before: DesiredCluster<'_>,
        after: DesiredCluster<'_>,
        objects: &[&ObjectProjection],
    ) -> Result<Vec<ObjectWrite>, String> {
        writes::remake(self.kind(), self.head, &ClusterUpdate::default(), before, after, objects)
    }

    fn apply_update(
        &self,
        update: &ClusterUpdate,
        before: DesiredCluster<'_>,
        after: DesiredCluster<'_>,
        objects: &[&ObjectProjection],
    ) -> Result<Option<Vec<ObjectWrite>>, String> {
        writes::remake(self.kind(), self.head, update, before, after, objects).map(Some)
    }

    fn check_recipe_change(&self, _: DesiredCluster<'_>, after: DesiredCluster<'_>) -> Result<(), String> {
        writes::check(after).map(drop)
    }

    fn owner(&self, labels: &BTreeMap<String, String>) -> Owner {
        labels.get(STARTED_BY).map(|user| Owner::of_scheme(SCHEME, user)).unwrap_or_default()
    }

    fn user(&self, labels: &BTreeMap<String, String>) -> String {
        labels.get(STARTED_BY).cloned().unwrap_or_default()
    }

    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints {
        let host = |service: &str| format!("{cluster}-{service}.{namespace}.svc");
        let (address, dashboard) = match self.framework {
            Framework::Ray => {
                let host = host("ray-client");
                (format!("ray://{host}:10001"), format!("http://{host}:8265"))
            }
            Framework::Dask => {
                let host = host("dask-scheduler");
                (format!("tcp://{host}:8786"), format!("http://{host}:8787/status"))
            }
            Framework::Spark => {
                let host = host("spark-master");
                (format!("spark://{host}:7077"), format!("http://{host}:8080/"))
            }
            Framework::Unknown(_) => return Endpoints::default(),
        };
        Endpoints::default().with(Endpoints::ADDRESS, address).with(Endpoints::DASHBOARD, dashboard)
    }

    fn client_environment(&self, endpoints: &Endpoints, token: Option<&str>) -> BTreeMap<String, String> {
        match self.framework {
            Framework::Ray => super::kuberay::KubeRay.client_environment(endpoints, token),
            Framework::Dask => crate::dask::environment(endpoints),
            Framework::Spark => crate::spark::environment(endpoints),
            Framework::Unknown(_) => BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests;
