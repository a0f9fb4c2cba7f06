//! One cluster for people.

use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::v1alpha2::{Cluster, ListNodesRequest};

use crate::connect::Client;
use crate::failure::Failure;
use crate::table;

/// Nodes whose logs are named; of more than these nobody reads a list.
const SHOWN_LOGS: i32 = 20;

/// What is named first among the endpoints: what programs connect to, then what people look at.
const FIRST: [&str; 2] = ["address", "dashboard"];

type Pair = (String, String);

/// Its line, why it is so, what to connect to, and widely when it goes by itself and where its logs are.
pub(super) fn cluster(cluster: &Cluster, logs: &[Pair], wide: bool) -> String {
    let mut text = table::render(std::slice::from_ref(cluster), wide);
    let mut pairs = endpoints(cluster);
    pairs.extend(cluster.endpoints.get("dashboard").and_then(|dashboard| from_outside(dashboard)));
    if wide {
        let limits = limits(cluster, SystemClock.now()).into_iter();
        pairs.extend(limits.map(|(what, words)| (what.to_owned(), words)));
        pairs.extend_from_slice(logs);
    } else if cluster.state != "ACTIVE" {
        pairs.push(("reason".to_owned(), cluster.status_reason.clone()));
    }
    if pairs.iter().any(|(_, value)| !value.is_empty()) {
        let pairs: Vec<(&str, String)> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        text.push('\n');
        text.push_str(&table::pairs(&pairs));
    }
    text
}

/// What to connect to, in an order that stays.
fn endpoints(cluster: &Cluster) -> Vec<Pair> {
    let place = |purpose: &str| FIRST.iter().position(|first| *first == purpose).unwrap_or(FIRST.len());
    let mut pairs: Vec<Pair> =
        cluster.endpoints.iter().map(|(purpose, at)| (purpose.clone(), at.clone())).collect();
    // Those behind the first are sorted by name already.
    pairs.sort_by_key(|(purpose, _)| place(purpose));
    pairs
}

/// How what answers only within Kubernetes is looked at from elsewhere.
fn from_outside(dashboard: &str) -> Option<Pair> {
    let host = dashboard.strip_prefix("http://")?.split('/').next()?;
    let (service, port) = host.split_once(".svc:").or_else(|| host.split_once(".svc.cluster.local:"))?;
    let (service, namespace) = service.split_once('.')?;
    let words =
        format!("kubectl -n {namespace} port-forward svc/{service} {port}, then http://127.0.0.1:{port}");
    Some(("from outside".to_owned(), words))
}

/// How the log of each node is read.
pub(super) async fn logs(client: &mut Client, cluster: &Cluster) -> Result<Vec<Pair>, Failure> {
    if cluster.provider == "simulated" {
        // They write nothing.
        return Ok(Vec::new());
    }
    let request = ListNodesRequest {
        id: cluster.id.clone(),
        sort_by: "index".to_owned(),
        page_size: SHOWN_LOGS,
        ..ListNodesRequest::default()
    };
    let call = async |client: &Client| client.clusters().list_nodes(request.clone()).await;
    let answer = client.ask(call).await?.into_inner();
    let log = |name: &str| (format!("log of {name}"), command(cluster, name));
    let mut logs: Vec<Pair> = answer.nodes.iter().map(|node| log(&node.name)).collect();
    if !answer.next_page_token.is_empty() {
        logs.push(("log of others".to_owned(), command(cluster, "NODE")));
    }
    Ok(logs)
}

fn command(cluster: &Cluster, node: &str) -> String {
    let namespace = match cluster.namespace.as_str() {
        "" | "default" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    format!("muster logs {}{namespace} --node {node}", cluster.name)
}

/// When a cluster goes by itself.
fn limits(cluster: &Cluster, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    if let Some(limit) = cluster.idle_timeout {
        let limit = TimeSpan::from_micros(limit.micros());
        let words = cluster.idle_ends_at.map_or_else(
            || format!("stops when nobody has used it for {limit}"),
            |end| match table::left(end, now) {
                Some(left) => {
                    format!("stops in {left} unless used; unused for {}", table::age(cluster.idle_since, now))
                }
                None => "stops now".to_owned(),
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
    fn what_to_connect_to_comes_first_then_the_dashboard_then_the_rest_by_name() {
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
    fn what_answers_only_within_kubernetes_is_shown_with_the_way_in() {
        let (_, words) = from_outside("http://fred-head-svc.demo.svc:8265/").unwrap();
        assert_eq!(words, "kubectl -n demo port-forward svc/fred-head-svc 8265, then http://127.0.0.1:8265");
        assert_eq!(from_outside("http://127.0.0.1:8787/status"), None);
    }

    #[test]
    fn the_log_of_each_node_is_a_command() {
        let cluster = |namespace: &str| Cluster {
            name: "fred".to_owned(),
            namespace: namespace.to_owned(),
            provider: "local".to_owned(),
            ..Cluster::default()
        };
        assert_eq!(command(&cluster("default"), "fred-head"), "muster logs fred --node fred-head");
        assert_eq!(command(&cluster("demo"), "w1"), "muster logs fred -n demo --node w1");
    }

    #[test]
    fn it_is_said_when_a_cluster_goes_by_itself() {
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
        assert_eq!(shown(&cluster), ["idle: stops when nobody has used it for 10m", lifetime]);
        (cluster.idle_since, cluster.idle_ends_at) = (at(640), at(1_240));
        assert_eq!(shown(&cluster), ["idle: stops in 4m unless used; unused for 6m", lifetime]);
        (cluster.idle_ends_at, cluster.lifetime_ends_at) = (at(1_000), at(999));
        assert_eq!(shown(&cluster), ["idle: stops now", "lifetime: ends now, at 1970-01-01T00:16:39Z"]);
    }
}
