//! Ray, Dask and Spark by Domino's operator: one shape of objects for the three of them.
//!
//! Domino makes these objects, and Muster finds, scales and changes them. What makes their pods is not followed:
//! stateful sets have no word for why pods are missing, and whoever serves only these clusters needs no right to see
//! more than them and their pods.

mod image;
mod read;
mod write;

use std::collections::BTreeMap;

use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_core::domino::{FLAVOR, SCHEME, STARTED_BY};
use muster_core::node::NodeRole;
use muster_core::principal::Owner;
use serde_json::Value;

use super::flavor::{Abilities, Flavor, Member, Plan, Resize, Step};
use super::object::{Kind, Manifest, Part, Watched};
use super::words::Words;
use crate::endpoints::Endpoints;

/// Clusters of one framework by Domino's operator.
pub(super) struct Domino {
    framework: Framework,
    operator: &'static str,
    watched: &'static [Watched],
    pods: &'static str,
    /// What it calls a head, in objects and on pods.
    head: &'static str,
    longest_name: usize,
}

pub(super) const RAY: Domino = Domino {
    framework: Framework::Ray,
    operator: "Domino's operator (rayclusters.distributed-compute.dominodatalab.com)",
    watched: &[root(&RAY_CLUSTER)],
    pods: "app.kubernetes.io/managed-by=distributed-compute-operator,app.kubernetes.io/name=ray",
    head: "head",
    longest_name: 41,
};

pub(super) const DASK: Domino = Domino {
    framework: Framework::Dask,
    operator: "Domino's operator (daskclusters.distributed-compute.dominodatalab.com)",
    watched: &[root(&DASK_CLUSTER)],
    pods: "app.kubernetes.io/managed-by=distributed-compute-operator,app.kubernetes.io/name=dask",
    head: "scheduler",
    longest_name: 37,
};

pub(super) const SPARK: Domino = Domino {
    framework: Framework::Spark,
    operator: "Domino's operator (sparkclusters.distributed-compute.dominodatalab.com)",
    watched: &[root(&SPARK_CLUSTER)],
    pods: "app.kubernetes.io/managed-by=distributed-compute-operator,app.kubernetes.io/name=spark",
    head: "master",
    longest_name: 39,
};

const RAY_CLUSTER: Kind = kind("RayCluster", "rayclusters");
const DASK_CLUSTER: Kind = kind("DaskCluster", "daskclusters");
const SPARK_CLUSTER: Kind = kind("SparkCluster", "sparkclusters");

const fn kind(kind: &'static str, plural: &'static str) -> Kind {
    Kind { group: "distributed-compute.dominodatalab.com", version: "v1alpha1", kind, plural }
}

const fn root(kind: &'static Kind) -> Watched {
    Watched { kind, selector: "", part: Part::Root }
}

impl Domino {
    fn kind(&self) -> &'static Kind {
        self.watched[0].kind
    }
}

impl Flavor for Domino {
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
            // Stateful sets take from the end.
            choose_victims: false,
            rolls: true,
            several_groups: false,
            // A restarted head has its name again, and nobody touches the workers.
            workers_outlive_head: true,
        }
    }

    fn longest_name(&self) -> usize {
        self.longest_name
    }

    fn watched(&self) -> &'static [Watched] {
        self.watched
    }

    fn pods(&self) -> &'static str {
        self.pods
    }

    fn is_shown(&self) -> bool {
        true
    }

    fn shown(&self, root: &Value) -> Value {
        let mut shown = root.clone();
        if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        shown
    }

    fn member(&self, labels: &BTreeMap<String, String>) -> Option<Member> {
        let (role, group) = match labels.get("app.kubernetes.io/component")?.as_str() {
            "worker" => (NodeRole::Worker, Some(DEFAULT_GROUP.to_owned())),
            head if head == self.head => (NodeRole::Head, None),
            _ => return None,
        };
        let cluster = labels.get("app.kubernetes.io/instance")?.clone();
        Some(Member { cluster, role, group, keeps_name: true })
    }

    fn manifests(&self, _: Plan<'_>) -> Result<Vec<Manifest>, String> {
        Err("clusters of flavor domino are created by Domino: start one there, and it is found here"
            .to_owned())
    }

    fn read(&self, _: &Kind, object: &Value) -> Option<Words> {
        Some(read::words(self.head, object))
    }

    fn resize(&self, cluster: &str, words: &[&Words], changes: &[Resize<'_>]) -> Result<Vec<Step>, String> {
        write::resize(self.kind(), cluster, words, changes)
    }

    fn remake(&self, before: Plan<'_>, after: Plan<'_>, words: &[&Words]) -> Result<Vec<Step>, String> {
        write::remake(self.kind(), self.head, before, after, words)
    }

    fn check_remake(&self, _: Plan<'_>, after: Plan<'_>) -> Result<(), String> {
        write::check(after).map(drop)
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

    fn environment(&self, endpoints: &Endpoints, token: Option<&str>) -> BTreeMap<String, String> {
        match self.framework {
            Framework::Ray => super::kuberay::KubeRay.environment(endpoints, token),
            Framework::Dask => crate::dask::environment(endpoints),
            Framework::Spark => crate::spark::environment(endpoints),
            Framework::Unknown(_) => BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests;
