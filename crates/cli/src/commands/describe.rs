//! `muster describe`: shows a cluster with its nodes and latest events.

use std::process::ExitCode;

use clap::Parser;
use muster_core::cluster::Framework;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_frameworks::local_memory_limit;
use muster_local::environments::PYTHON_VARIABLE;
use muster_proto::v1alpha2::{Cluster, Event, ListEventsRequest, ListNodesRequest, Node, Shape};
use serde::Serialize;

use super::{ClusterFlags, environment, nodes, one_cluster};
use crate::connect::Client;
use crate::failure::Failure;
use crate::format::{self, Format, FormatFlag};
use crate::{output, table};

/// Number of events that are shown.
const EVENTS: i32 = 10;

/// Show a cluster on one screen: its properties, state and reason, nodes and latest events
#[derive(Debug, Parser)]
pub(crate) struct Describe {
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    format: FormatFlag,
}

/// Everything that is shown.
#[derive(Debug, Serialize)]
struct Description {
    cluster: Cluster,
    /// The interpreter of a cluster on this machine; empty if it is not known.
    python: String,
    nodes: Vec<Node>,
    /// The latest events; the newest is the first.
    events: Vec<Event>,
}

impl Describe {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster, format } = self;
            let (mut client, cluster) = cluster.find().await?;
            let described = Description::fetch(&mut client, cluster).await?;
            Ok(output::print(&match format.format {
                Format::Json => format::json(&described)?,
                Format::Yaml => format::yaml(&described)?,
                Format::Name => format!("{}\n", described.cluster.name),
                Format::Table | Format::Wide => described.text(),
            }))
        })
    }
}

impl Description {
    async fn fetch(client: &mut Client, cluster: Cluster) -> Result<Self, Failure> {
        let id = || cluster.id.clone();
        let nodes = nodes::all(client, ListNodesRequest { id: id(), ..ListNodesRequest::default() }).await?;
        let request = ListEventsRequest {
            id: id(),
            sort_by: "-at".to_owned(),
            page_size: EVENTS,
            ..ListEventsRequest::default()
        };
        let events =
            client.retry(async |client| client.clusters().list_events(request.clone()).await).await?;
        // A cluster without a head has no environment, and readers may not see it.
        let mut environment = environment(client, &cluster.id).await.unwrap_or_default();
        let python = environment.variables.remove(PYTHON_VARIABLE).unwrap_or_default();
        Ok(Self { cluster, python, nodes, events: events.into_inner().events })
    }

    fn text(&self) -> String {
        let mut text = table::pairs(&facts(&self.cluster, &self.python));
        if !self.nodes.is_empty() {
            text.push_str("\nNodes\n");
            text.push_str(&table::render(&self.nodes, false));
        }
        if !self.events.is_empty() {
            text.push_str("\nEvents, newest first\n");
            text.push_str(&table::render(&self.events, false));
        }
        text
    }
}

/// Returns the properties of a cluster as names and values.
fn facts<'a>(cluster: &'a Cluster, python: &str) -> Vec<(&'a str, String)> {
    let now = SystemClock.now();
    let owner = cluster.owner.clone().unwrap_or_default();
    let spec = cluster.cluster_spec.clone().unwrap_or_default();
    let head = spec.head_group_spec.unwrap_or_default();
    let listed = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    };
    let mut facts = vec![
        ("name", cluster.name.clone()),
        ("namespace", cluster.namespace.clone()),
        ("framework", [cluster.framework.as_str(), &cluster.framework_version].join(" ").trim().to_owned()),
        ("provider", [cluster.provider.as_str(), &cluster.flavor].join(" ").trim().to_owned()),
        ("state", cluster.state.clone()),
        ("reason", table::state_reason(cluster).to_owned()),
        ("owner", if owner.name.is_empty() { owner.id } else { owner.name }),
        ("age", table::age(cluster.created_at, now)),
        ("workers", table::workers(cluster)),
        ("head shape", shape(head.shape.as_ref())),
    ];
    for group in &spec.worker_group_spec {
        let bounds = bounds(group.min_replicas, group.max_replicas);
        let words = [format!("replicas {}", group.replicas), bounds, shape(group.shape.as_ref())];
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        facts.push(("worker group", format!("{}: {}", group.group_name, words.join(", "))));
    }
    facts.push(("memory limit", memory_limit(cluster).to_owned()));
    facts.extend([
        ("image", head.image),
        ("python", [cluster.python_version.as_str(), python].join(" ").trim().to_owned()),
        ("working directory", cluster.working_dir.clone()),
        // Only the names are shown, since values may be secrets.
        ("variables", cluster.envs.keys().cloned().collect::<Vec<_>>().join(", ")),
        ("labels", listed(&cluster.labels)),
        ("deleted with", table::deleted_with(cluster).unwrap_or_default()),
        ("open jobs", cluster.open_jobs.join(", ")),
    ]);
    facts.extend(cluster.idle_timeout.map(|_| ("last use", table::last_use(cluster, now))));
    facts.extend(one_cluster::limits(cluster, now));
    facts.extend(cluster.endpoints.iter().map(|(purpose, at)| (purpose.as_str(), at.clone())));
    facts
}

/// Returns a text on what limits the memory of the nodes, as far as Muster decides it.
fn memory_limit(cluster: &Cluster) -> &'static str {
    match cluster.provider.as_str() {
        "local" => match cluster.framework.parse::<Framework>() {
            Ok(framework) => local_memory_limit(framework).unwrap_or_default(),
            Err(_) => "none",
        },
        "kubernetes" => "the limits of the pods",
        _ => "",
    }
}

/// Formats the amounts of a shape as on the command line.
fn shape(shape: Option<&Shape>) -> String {
    let Some(shape) = shape else { return String::new() };
    let amounts = [("cpu", &shape.cpu), ("memory", &shape.memory)];
    let mut words: Vec<String> = amounts
        .iter()
        .filter(|(_, amount)| !amount.is_empty())
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    words.extend(shape.gpu.filter(|gpu| *gpu > 0).map(|gpu| format!("gpu={gpu}")));
    words.join(",")
}

fn bounds(min: Option<i32>, max: Option<i32>) -> String {
    match (min, max) {
        (None | Some(0), None) => String::new(),
        (Some(min), None) => format!("min {min}"),
        (None, Some(max)) => format!("max {max}"),
        (Some(min), Some(max)) => format!("min {min}, max {max}"),
    }
}

#[cfg(test)]
mod tests {
    use muster_proto::v1alpha2::{ClusterSpec, Owner, WorkerGroupSpec};

    use super::*;
    use crate::table::InNamespace;

    #[test]
    fn a_healthy_cluster_has_no_reason() {
        let why = "CLUSTER_CREATE: number of active nodes is equal or above desired_capacity (2).";
        let mut cluster =
            Cluster { state: "ACTIVE".to_owned(), status_reason: why.to_owned(), ..Cluster::default() };
        let in_list = |cluster: &Cluster| {
            table::render(&[InNamespace(cluster.clone())], true).contains("equal or above desired_capacity")
        };
        assert_eq!((table::state_reason(&cluster), in_list(&cluster)), ("", false));
        assert!(table::render(&[InNamespace(cluster.clone())], true).trim_end().ends_with(" <none>"));
        cluster.outdated_nodes.push("fred-worker-1".to_owned());
        assert_eq!((table::state_reason(&cluster), in_list(&cluster)), (why, true));
        let cluster = Cluster { state: "WARNING".to_owned(), outdated_nodes: Vec::new(), ..cluster };
        assert_eq!((table::state_reason(&cluster), in_list(&cluster)), (why, true));
    }

    #[test]
    fn a_description_has_no_values_of_variables() {
        let group = WorkerGroupSpec {
            group_name: "w".to_owned(),
            shape: Some(Shape { cpu: "2".to_owned(), memory: "4Gi".to_owned(), ..Shape::default() }),
            max_replicas: Some(3),
            ..WorkerGroupSpec::default()
        };
        let cluster = Cluster {
            name: "fred".to_owned(),
            framework: "ray".to_owned(),
            state: "ACTIVE".to_owned(),
            owner: Some(Owner { id: "7".to_owned(), ..Owner::default() }),
            envs: [("TOKEN".to_owned(), "abc".to_owned())].into(),
            cluster_spec: Some(ClusterSpec { worker_group_spec: vec![group], ..ClusterSpec::default() }),
            working_dir: "/srv".to_owned(),
            provider: "local".to_owned(),
            python_version: "3.12.4".to_owned(),
            framework_version: "2.50.0".to_owned(),
            ..Cluster::default()
        };
        let facts = facts(&cluster, "/venv/bin/python");
        let of = |name: &str| facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        assert_eq!((of("framework"), of("owner")), (Some("ray 2.50.0"), Some("7")));
        assert_eq!(of("worker group"), Some("w: replicas 0, max 3, cpu=2,memory=4Gi"));
        assert_eq!((of("variables"), of("working directory")), (Some("TOKEN"), Some("/srv")));
        assert_eq!((of("python"), of("last use")), (Some("3.12.4 /venv/bin/python"), None));
        assert!(of("memory limit").is_some_and(|limit| limit.starts_with("Ray's own")));
        assert!(facts.iter().all(|(_, value)| !value.contains("abc")), "{facts:?}");
    }
}
