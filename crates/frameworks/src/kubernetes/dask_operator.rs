//! Dask by its operator: a `DaskCluster` of group `kubernetes.dask.org`, and a `DaskWorkerGroup` for each group.

mod make;
mod read;
mod write;

use std::collections::BTreeMap;

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use serde_json::{Value, json};

use super::flavor::{Abilities, Deed, Flavor, Member, Plan, Resize, Step};
use super::object::{DEPLOYMENT, Kind, Manifest, Part, Watched};
use super::words::Words;
use crate::endpoints::Endpoints;

/// Dask by its operator.
pub(super) struct DaskOperator;

const fn kind(kind: &'static str, plural: &'static str) -> Kind {
    Kind { group: "kubernetes.dask.org", version: "v1", kind, plural }
}

const CLUSTER: Kind = kind("DaskCluster", "daskclusters");
const WORKER_GROUP: Kind = kind("DaskWorkerGroup", "daskworkergroups");
const AUTOSCALER: Kind = kind("DaskAutoscaler", "daskautoscalers");

/// The label that tells whose every object and pod is.
const CLUSTER_NAME: &str = "dask.org/cluster-name";

/// The annotation of clusters that Muster gave an autoscaler.
const AUTOSCALED: &str = "muster.dev/autoscaled";

/// What a `DaskAutoscaler` is to such a cluster.
const ITS_AUTOSCALER: &str = "its autoscaler";

const WATCHED: &[Watched] = &[
    Watched { kind: &CLUSTER, selector: "", part: Part::Root },
    Watched { kind: &WORKER_GROUP, selector: "", part: Part::More },
    Watched { kind: &AUTOSCALER, selector: "", part: Part::More },
    Watched { kind: &DEPLOYMENT, selector: CLUSTER_NAME, part: Part::Maker },
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
            several_groups: false,
            // The graph is lost with the scheduler, and what workers held of it is of no use to the next one.
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
        CLUSTER_NAME
    }

    fn member(&self, labels: &BTreeMap<String, String>) -> Option<Member> {
        let cluster = labels.get(CLUSTER_NAME)?.clone();
        let (role, group) = match labels.get("dask.org/component")?.as_str() {
            "scheduler" => (NodeRole::Head, None),
            "worker" => {
                let object = labels.get("dask.org/workergroup-name")?;
                (NodeRole::Worker, Some(group_name(&cluster, object)))
            }
            // What runs a job is no member.
            _ => return None,
        };
        Some(Member { cluster, role, group, keeps_name: false })
    }

    fn manifests(&self, plan: Plan<'_>) -> Result<Vec<Manifest>, String> {
        make::manifests(plan, self.name())
    }

    fn missing(&self, cluster: &str, words: &[&Words]) -> Vec<String> {
        let has = |part: &str| words.iter().any(|words| words.part == Some(part));
        let is_missing = has(AUTOSCALED) && !has(ITS_AUTOSCALER);
        is_missing.then(|| format!("DaskAutoscaler '{cluster}' ({ITS_AUTOSCALER})")).into_iter().collect()
    }

    fn is_whole(&self, words: &[&Words]) -> bool {
        self.missing("", words).is_empty()
    }

    fn read(&self, kind: &Kind, object: &Value) -> Option<Words> {
        read::words(kind, object)
    }

    fn resize(&self, _: &str, words: &[&Words], changes: &[Resize<'_>]) -> Result<Vec<Step>, String> {
        write::resize(words, changes)
    }

    fn remake(&self, before: Plan<'_>, after: Plan<'_>, words: &[&Words]) -> Result<Vec<Step>, String> {
        write::remake(before, after, words)
    }

    fn check_remake(&self, before: Plan<'_>, after: Plan<'_>) -> Result<(), String> {
        // It makes the scheduler's Deployment once, and reads what the root says of it at no other time.
        if before.recipe.head() == after.recipe.head() {
            return Ok(());
        }
        Err("the Dask operator does not apply another image, shape or environment to a scheduler that exists: change \
             those of the workers by their group, or create another cluster"
            .to_owned())
    }

    fn revive_head(&self, cluster: &str) -> Option<Step> {
        // Its operator makes what is missing of a cluster that was just created, and looks at it at no other time.
        let deed = Deed::Merge(json!({"status": {"phase": "Created"}}));
        Some(Step { kind: &CLUSTER, name: cluster.to_owned(), deed })
    }

    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints {
        let host = format!("{cluster}-scheduler.{namespace}.svc");
        Endpoints::default()
            .with(Endpoints::ADDRESS, format!("tcp://{host}:8786"))
            .with(Endpoints::DASHBOARD, format!("http://{host}:8787/status"))
    }

    fn environment(&self, endpoints: &Endpoints, _: Option<&str>) -> BTreeMap<String, String> {
        crate::dask::environment(endpoints)
    }
}

/// The name of a group here, by that of its object: without the cluster's, where that is before it.
fn group_name(cluster: &str, object: &str) -> String {
    let own = object.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-'));
    own.filter(|own| !own.is_empty()).unwrap_or(object).to_owned()
}

#[cfg(test)]
mod tests;
