//! Renders one cluster for people.

use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::v1alpha2::{Cluster, ListNodesRequest};

use crate::connect::Client;
use crate::failure::Failure;
use crate::table::{self, InNamespace};

/// Largest number of nodes whose log commands are listed.
const SHOWN_LOGS: i32 = 20;

/// The endpoints that are listed first: the address for programs, then the dashboard for people.
const FIRST: [&str; 2] = ["address", "dashboard"];

type Pair = (String, String);

/// Renders a cluster: its line, the reason of its state and its endpoints. If `wide`, its limits and the commands that
/// print its logs follow.
pub(super) fn cluster(cluster: &Cluster, logs: &[Pair], wide: bool) -> String {
    let mut text = table::render(&[InNamespace(cluster.clone())], wide);
    let mut pairs = endpoints(cluster);
    pairs.extend(cluster.endpoints.get("dashboard").and_then(|dashboard| from_outside(dashboard)));
    // A wide line shows the versions already.
    pairs.extend(versions(cluster).filter(|_| !wide));
    if wide {
        let limits = limits(cluster, SystemClock.now()).into_iter();
        pairs.extend(limits.map(|(what, words)| (what.to_owned(), words)));
        pairs.extend_from_slice(logs);
    } else if cluster.state != "ACTIVE" {
        pairs.push(("reason".to_owned(), cluster.status_reason.clone()));
    }
    if !cluster.outdated_nodes.is_empty() {
        let words = format!("{}: created from an older recipe", cluster.outdated_nodes.join(", "));
        pairs.push(("restart needed".to_owned(), words));
    }
    if pairs.iter().any(|(_, value)| !value.is_empty()) {
        let pairs: Vec<(&str, String)> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        text.push('\n');
        text.push_str(&table::pairs(&pairs));
    }
    text
}

/// Returns the versions of what the head runs, as far as they are known.
fn versions(cluster: &Cluster) -> Option<Pair> {
    let named = |name: &str, version: &str| (!version.is_empty()).then(|| format!("{name} {version}"));
    let known =
        [named(&cluster.framework, &cluster.framework_version), named("Python", &cluster.python_version)];
    let known: Vec<String> = known.into_iter().flatten().collect();
    (!known.is_empty()).then(|| ("runs".to_owned(), known.join(", ")))
}

/// Returns the endpoints in a stable order.
pub(super) fn endpoints(cluster: &Cluster) -> Vec<Pair> {
    let place = |purpose: &str| FIRST.iter().position(|first| *first == purpose).unwrap_or(FIRST.len());
    let mut pairs: Vec<Pair> =
        cluster.endpoints.iter().map(|(purpose, at)| (purpose.clone(), at.clone())).collect();
    // The map is sorted by name, and the sort is stable.
    pairs.sort_by_key(|(purpose, _)| place(purpose));
    pairs
}

/// Returns how to open a dashboard from outside of Kubernetes; `None` if it is reachable directly.
fn from_outside(dashboard: &str) -> Option<Pair> {
    let host = dashboard.strip_prefix("http://")?.split('/').next()?;
    let (service, port) = host.split_once(".svc:").or_else(|| host.split_once(".svc.cluster.local:"))?;
    let (service, namespace) = service.split_once('.')?;
    let words =
        format!("kubectl -n {namespace} port-forward svc/{service} {port}, then http://127.0.0.1:{port}");
    Some(("from outside".to_owned(), words))
}

/// Returns the command that prints the log of each node.
pub(super) async fn logs(client: &mut Client, cluster: &Cluster) -> Result<Vec<Pair>, Failure> {
    if cluster.provider == "simulated" {
        // Simulated nodes write no logs.
        return Ok(Vec::new());
    }
    let request = ListNodesRequest {
        id: cluster.id.clone(),
        sort_by: "index".to_owned(),
        page_size: SHOWN_LOGS,
        ..ListNodesRequest::default()
    };
    let call = async |client: &Client| client.clusters().list_nodes(request.clone()).await;
    let answer = client.retry(call).await?.into_inner();
    let log = |name: &str| (format!("log of {name}"), log_command(cluster, name));
    let mut logs: Vec<Pair> = answer.nodes.iter().map(|node| log(&node.name)).collect();
    if !answer.next_page_token.is_empty() {
        logs.push(("log of others".to_owned(), log_command(cluster, "NODE")));
    }
    Ok(logs)
}

fn log_command(cluster: &Cluster, node: &str) -> String {
    let namespace = match cluster.namespace.as_str() {
        "" | "default" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    format!("muster logs {}{namespace} --node {node}", cluster.name)
}

/// Describes when a cluster is deleted by its idle timeout or lifetime.
pub(super) fn limits(cluster: &Cluster, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    if let Some(limit) = cluster.idle_timeout {
        let limit = TimeSpan::from_micros(limit.micros());
        let words = cluster.idle_ends_at.map_or_else(
            || format!("deleted after {limit} without use"),
            |end| match table::left(end, now) {
                Some(left) => {
                    format!(
                        "deleted in {left} unless used; unused for {}",
                        table::age(cluster.idle_since, now)
                    )
                }
                None => "being deleted".to_owned(),
            },
        );
        pairs.push(("idle", words));
    }
    if let Some(end) = cluster.lifetime_ends_at {
        let left = table::left(end, now).map_or_else(|| "now".to_owned(), |left| format!("in {left}"));
        pairs.push(("lifetime", format!("ends {left}, at {}", table::moment(end))));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use muster_proto::wkt;

    use super::*;

    #[test]
    fn endpoints_are_the_address_the_dashboard_and_the_rest_by_name() {
        let named = |(purpose, at): (&str, &str)| (purpose.to_owned(), at.to_owned());
        let given = [("rest", "c"), ("dashboard", "b"), ("client", "d"), ("address", "a")];
        let cluster = Cluster {
            endpoints: given.into_iter().map(named).collect(),
            state: "ACTIVE".to_owned(),
            ..Cluster::default()
        };
        let shown: Vec<_> = endpoints(&cluster).into_iter().map(|(purpose, _)| purpose).collect();
        assert_eq!(shown, ["address", "dashboard", "client", "rest"]);
    }

    #[test]
    fn a_dashboard_on_kubernetes_is_shown_with_its_port_forward() {
        let (_, words) = from_outside("http://fred-head-svc.demo.svc:8265/").unwrap();
        assert_eq!(words, "kubectl -n demo port-forward svc/fred-head-svc 8265, then http://127.0.0.1:8265");
        assert_eq!(from_outside("http://127.0.0.1:8787/status"), None);
    }

    #[test]
    fn the_versions_that_are_known_are_shown() {
        let shown = |python: &str, version: &str| {
            let (python_version, framework_version) = (python.to_owned(), version.to_owned());
            let framework = "ray".to_owned();
            versions(&Cluster { framework, python_version, framework_version, ..Cluster::default() })
        };
        assert_eq!(shown("", ""), None);
        assert_eq!(shown("", "2.50.0").unwrap().1, "ray 2.50.0");
        assert_eq!(shown("3.12.4", "2.50.0").unwrap().1, "ray 2.50.0, Python 3.12.4");
    }

    #[test]
    fn the_log_of_a_node_is_shown_as_a_command() {
        let cluster = |namespace: &str| Cluster {
            name: "fred".to_owned(),
            namespace: namespace.to_owned(),
            provider: "local".to_owned(),
            ..Cluster::default()
        };
        assert_eq!(log_command(&cluster("default"), "fred-head"), "muster logs fred --node fred-head");
        assert_eq!(log_command(&cluster("demo"), "w1"), "muster logs fred -n demo --node w1");
    }

    #[test]
    fn limits_of_a_cluster_are_described() {
        let at = |seconds: i64| Some(wkt::Timestamp { seconds, nanos: 0 });
        let now = Timestamp::from_micros(1_000_000_000);
        let shown = |cluster: &Cluster| {
            limits(cluster, now)
                .into_iter()
                .map(|(what, words)| format!("{what}: {words}"))
                .collect::<Vec<_>>()
        };
        assert!(shown(&Cluster::default()).is_empty());
        let mut cluster = Cluster {
            idle_timeout: Some(wkt::Duration { seconds: 600, nanos: 0 }),
            lifetime_ends_at: at(8_200),
            ..Cluster::default()
        };
        let lifetime = "lifetime: ends in 2h, at 1970-01-01T02:16:40Z";
        assert_eq!(shown(&cluster), ["idle: deleted after 10m without use", lifetime]);
        (cluster.idle_since, cluster.idle_ends_at) = (at(640), at(1_240));
        assert_eq!(shown(&cluster), ["idle: deleted in 4m unless used; unused for 6m", lifetime]);
        (cluster.idle_ends_at, cluster.lifetime_ends_at) = (at(1_000), at(999));
        assert_eq!(shown(&cluster), ["idle: being deleted", "lifetime: ends now, at 1970-01-01T00:16:39Z"]);
    }
}
