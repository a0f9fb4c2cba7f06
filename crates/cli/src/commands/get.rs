//! `muster get`: one cluster, or those of a namespace.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_core::time::{Span, Timestamp};
use muster_engine::clock::{Clock as _, SystemClock};
use muster_proto::v1alpha2::{Cluster, ListAllClustersRequest, ListClustersRequest, ListClustersResponse};

use super::{NamespaceFlag, PAGE, count, find, pages, watch};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::format::{self, FormatFlag};
use crate::{output, table};

/// Show a cluster, or list them
#[derive(Debug, Parser)]
pub(crate) struct Get {
    /// Which one; otherwise all of the namespace
    name: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    /// List those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// Go on, and show every change
    #[arg(short = 'w', long)]
    watch: bool,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Get {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, all_namespaces, watch, format, server } = self;
            let (namespace, format) = (namespace.namespace, format.format);
            let mut client = server.connect().await?;
            let one = match &name {
                Some(name) => Some(find(&mut client, &namespace, name).await?),
                None => None,
            };
            if watch {
                let namespace = if all_namespaces { String::new() } else { namespace };
                return watch::follow(&mut client, namespace, name, format).await;
            }
            if let Some(cluster) = one {
                return format::one(format, &cluster, |wide| described(&cluster, wide));
            }
            let clusters = if all_namespaces {
                list_all(&mut client).await?
            } else {
                list(&mut client, &namespace).await?
            };
            let nothing = if all_namespaces {
                "no clusters: make one with `muster create NAME`".to_owned()
            } else {
                format!(
                    "no clusters in namespace '{namespace}': make one with `muster create NAME`, or look at all with -A"
                )
            };
            let message = ListClustersResponse {
                total_size: count(clusters.len()),
                clusters,
                ..ListClustersResponse::default()
            };
            format::list(format, &message.clusters, "clusters", &message, &nothing)
        })
    }
}

async fn list(client: &mut Client, namespace: &str) -> Result<Vec<Cluster>, Failure> {
    pages(async |page_token| {
        let request = ListClustersRequest {
            namespace: namespace.to_owned(),
            sort_by: "name".to_owned(),
            page_size: PAGE,
            page_token,
            ..ListClustersRequest::default()
        };
        let answer = client.ask(async |client| client.clusters().list_cluster(request.clone()).await).await?;
        let answer = answer.into_inner();
        Ok((answer.clusters, answer.next_page_token))
    })
    .await
}

/// The clusters of all namespaces, as far as the caller may see them.
pub(super) async fn list_all(client: &mut Client) -> Result<Vec<Cluster>, Failure> {
    pages(async |page_token| {
        let request = ListAllClustersRequest {
            sort_by: "name".to_owned(),
            page_size: PAGE,
            page_token,
            ..ListAllClustersRequest::default()
        };
        let call = async |client: &Client| client.clusters().list_all_clusters(request.clone()).await;
        let answer = client.ask(call).await?.into_inner();
        Ok((answer.clusters, answer.next_page_token))
    })
    .await
}

/// When a cluster goes by itself.
fn limits(cluster: &Cluster, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    if let Some(limit) = cluster.idle_timeout {
        let limit = Span::from_micros(limit.micros());
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

/// One cluster for people: its line, why it is so, and what to connect to.
pub(super) fn described(cluster: &Cluster, wide: bool) -> String {
    let mut text = table::render(std::slice::from_ref(cluster), wide);
    let endpoints = cluster.endpoints.iter().map(|(purpose, at)| (purpose.as_str(), at.clone()));
    let mut pairs: Vec<(&str, String)> = endpoints.collect();
    if wide {
        pairs.extend(limits(cluster, SystemClock.now()));
    }
    if cluster.state != "ACTIVE" && !wide {
        pairs.push(("reason", cluster.status_reason.clone()));
    }
    if pairs.iter().any(|(_, value)| !value.is_empty()) {
        text.push('\n');
        text.push_str(&table::pairs(&pairs));
    }
    text
}

#[cfg(test)]
mod tests {
    use muster_proto::wkt;

    use super::*;

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
