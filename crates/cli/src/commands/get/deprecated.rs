//! The columns of the Oshinko CLI, which existing scripts parse.

use muster_proto::v1alpha2::Cluster;

use crate::commands::is_usable;
use crate::table::ephemeral;

/// Formats one line per cluster: name, workers, master, web UI, route, status, app.
pub(super) fn lines(clusters: &[Cluster]) -> String {
    if clusters.is_empty() {
        return "No clusters found.\n".to_owned();
    }
    clusters.iter().map(line).collect()
}

fn line(cluster: &Cluster) -> String {
    let endpoint = |purpose: &str| cluster.endpoints.get(purpose).map_or("<missing>", String::as_str);
    let (master, page) = if is_native_spark(cluster) {
        let name = &cluster.name;
        (format!("spark://{name}:7077"), format!("http://{name}-ui:8080"))
    } else {
        (endpoint("address").to_owned(), endpoint("dashboard").to_owned())
    };
    let route = cluster.endpoints.get("route").map_or("http://<no route>", String::as_str);
    format!(
        "{:<14}\t {}\t {master:<30}\t {page:<32}\t {route:<32}\t {}\t  {}\n",
        cluster.name,
        cluster.desired_workers,
        status(cluster),
        ephemeral(cluster)
    )
}

/// Returns true for a native Spark cluster: the Services of such clusters have fixed names.
fn is_native_spark(cluster: &Cluster) -> bool {
    cluster.framework == "spark" && cluster.flavor == "native"
}

fn status(cluster: &Cluster) -> &'static str {
    if is_usable(&cluster.state) { "Running" } else { "Incomplete" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(state: &str) -> Cluster {
        Cluster {
            name: "abc".to_owned(),
            framework: "spark".to_owned(),
            flavor: "native".to_owned(),
            state: state.to_owned(),
            desired_workers: 2,
            ..Cluster::default()
        }
    }

    #[test]
    fn a_shared_cluster_has_the_columns_that_scripts_expect() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let shared = [
            "abc",
            "2",
            "spark://abc:7077",
            "http://abc-ui:8080",
            "http://<no",
            "route>",
            "Running",
            "<shared>",
        ];
        assert_eq!(words(&lines(&[cluster("ACTIVE")])), shared);
        let own = Cluster { app: "bob-1".to_owned(), ephemeral: true, ..cluster("CREATING") };
        assert!(lines(&[own]).ends_with("Incomplete\t  bob-1\n"));
    }

    #[test]
    fn an_empty_list_has_a_message() {
        assert_eq!(lines(&[]), "No clusters found.\n");
    }
}
