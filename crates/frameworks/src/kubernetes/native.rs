//! Spark without an operator: a Deployment for the master and one for the workers, with two Services, and a third for
//! metrics.
//!
//! Names, labels and variables are those of Oshinko, so that whatever knows its clusters knows these.

mod make;
mod read;
mod settings;
mod write;

use std::collections::BTreeMap;

use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_core::node::NodeRole;
use serde_json::Value;

use super::flavor::{Abilities, Flavor, Member, Plan, Resize, Step};
use super::object::{DEPLOYMENT, Kind, Manifest, Part, SERVICE, Watched};
use super::words::Words;
use crate::endpoints::Endpoints;

/// Spark by objects of our own.
pub(super) struct Native;

/// Whose an object or a pod is.
const CLUSTER: &str = "oshinko-cluster";
/// What it is there: `master`, `worker`, `webui`.
const TYPE: &str = "oshinko-type";
const MASTER: &str = "master";
const WORKER: &str = "worker";

const WEB_UI: &str = "webui";

/// Parts of a cluster beside its master's Deployment, and what each is there for.
const WORKERS: &str = "its workers";
const ADDRESS: &str = "its address";
const PAGE: &str = "its page";
const METRICS: &str = "its metrics";

/// The annotation of the master that says how the cluster was made.
const CONFIG: &str = "oshinko-config";

/// The Service of a cluster's metrics, whose labels are those of its address.
fn metrics_service(cluster: &str) -> String {
    format!("{cluster}-metrics")
}

const WATCHED: &[Watched] = &[
    Watched { kind: &DEPLOYMENT, selector: "oshinko-cluster,oshinko-type=master", part: Part::Root },
    Watched { kind: &DEPLOYMENT, selector: "oshinko-cluster,oshinko-type=worker", part: Part::More },
    Watched { kind: &SERVICE, selector: "oshinko-cluster,oshinko-type", part: Part::More },
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
            several_groups: false,
            // They know the master by its Service, and tell the next one of themselves.
            workers_outlive_head: true,
        }
    }

    fn longest_name(&self) -> usize {
        // The name of Service `NAME-ui` has 63 characters at most.
        60
    }

    fn watched(&self) -> &'static [Watched] {
        WATCHED
    }

    fn pods(&self) -> &'static str {
        "oshinko-cluster,oshinko-type"
    }

    fn member(&self, labels: &BTreeMap<String, String>) -> Option<Member> {
        let (role, group) = match labels.get(TYPE)?.as_str() {
            MASTER => (NodeRole::Head, None),
            WORKER => (NodeRole::Worker, Some(DEFAULT_GROUP.to_owned())),
            _ => return None,
        };
        Some(Member { cluster: labels.get(CLUSTER)?.clone(), role, group, keeps_name: false })
    }

    fn manifests(&self, plan: Plan<'_>) -> Result<Vec<Manifest>, String> {
        make::manifests(plan, self.name())
    }

    fn is_whole(&self, words: &[&Words]) -> bool {
        // The workers are made last.
        words.iter().any(|words| !words.groups.is_empty())
    }

    fn missing(&self, cluster: &str, words: &[&Words]) -> Vec<String> {
        let parts = [
            (WORKERS, format!("Deployment '{cluster}-w'")),
            (ADDRESS, format!("Service '{cluster}'")),
            (PAGE, format!("Service '{cluster}-ui'")),
        ];
        let config = words.iter().find_map(|said| said.config.as_deref());
        let metrics = config.filter(|config| settings::serves_metrics(config));
        let metrics = metrics.map(|_| (METRICS, format!("Service '{}'", metrics_service(cluster))));
        let missing = parts
            .into_iter()
            .chain(metrics)
            .filter(|(part, _)| words.iter().all(|said| said.part != Some(part)));
        missing.map(|(part, object)| format!("{object} ({part})")).collect()
    }

    fn read(&self, kind: &Kind, object: &Value) -> Option<Words> {
        if *kind == SERVICE { read::words_of_service(object) } else { read::words(object) }
    }

    fn resize(&self, _: &str, words: &[&Words], changes: &[Resize<'_>]) -> Result<Vec<Step>, String> {
        write::resize(words, changes)
    }

    fn remake(&self, before: Plan<'_>, after: Plan<'_>, words: &[&Words]) -> Result<Vec<Step>, String> {
        write::remake(before, after, words, self.name())
    }

    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints {
        Endpoints::default()
            .with(Endpoints::ADDRESS, format!("spark://{cluster}.{namespace}.svc:7077"))
            .with(Endpoints::DASHBOARD, format!("http://{cluster}-ui.{namespace}.svc:8080/"))
    }

    fn environment(&self, endpoints: &Endpoints, _: Option<&str>) -> BTreeMap<String, String> {
        crate::spark::environment(endpoints)
    }
}

#[cfg(test)]
mod tests;
