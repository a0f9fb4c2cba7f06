//! `muster get`: one cluster, or those of a namespace.

mod deprecated;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::{Cluster, ListAllClustersRequest, ListAppsRequest, ListClustersRequest};

use super::{AmongFlags, NamespaceFlag, PAGE, app, describe, find, find_by_id, pages, watch};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, Format, FormatFlag};
use crate::output;

/// Show a cluster, or list them
#[derive(Debug, Parser)]
pub(crate) struct Get {
    /// Which one; otherwise all of the namespace
    name: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    /// List those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// Only those that this app uses: a name, kind/name such as deploy/bob, or the name of a pod
    #[arg(long, value_name = "APP", conflicts_with_all = ["all_namespaces", "watch"])]
    app: Option<String>,
    /// Print the columns of the Oshinko CLI
    #[arg(short = 'd', long, conflicts_with_all = ["watch", "format"])]
    deprecated: bool,
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
            let Self { name, namespace, among, all_namespaces, app, deprecated, watch, format, server } =
                self;
            let (namespace, format) = (namespace.namespace, format.format);
            let mut client = server.connect().await?;
            let one = match &name {
                Some(name) => Some(find(&mut client, &namespace, name, &among).await?),
                None => None,
            };
            if let Some(app) = app {
                let used = used_by(&mut client, &namespace, &app, name.as_deref()).await?;
                if deprecated {
                    return Ok(output::print(&deprecated::lines(&used)));
                }
                return format::array(format, &used, "");
            }
            if deprecated {
                let clusters = match one {
                    Some(cluster) => vec![cluster],
                    None => list(&mut client, &namespace).await?,
                };
                return Ok(output::print(&deprecated::lines(&clusters)));
            }
            if watch {
                let namespace = if all_namespaces { String::new() } else { namespace };
                return watch::follow(&mut client, namespace, name, format).await;
            }
            if let Some(cluster) = one {
                let logs = match format {
                    Format::Wide => describe::logs(&mut client, &cluster).await?,
                    _ => Vec::new(),
                };
                return format::one(format, &cluster, |wide| describe::cluster(&cluster, &logs, wide));
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
            format::array(format, &clusters, &nothing)
        })
    }
}

/// The clusters that an app uses, or the one of this name among them.
async fn used_by(
    client: &mut Client,
    namespace: &str,
    app: &str,
    name: Option<&str>,
) -> Result<Vec<Cluster>, Failure> {
    let request = ListAppsRequest {
        namespace: namespace.to_owned(),
        app: app.to_owned(),
        ..ListAppsRequest::default()
    };
    let apps = app::list(client, request).await?;
    let mut ids: Vec<&str> = Vec::new();
    for used in apps.iter().flat_map(|app| &app.uses) {
        if name.is_none_or(|name| name == used.cluster) && !ids.contains(&used.cluster_id.as_str()) {
            ids.push(&used.cluster_id);
        }
    }
    if ids.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("no cluster found for app '{app}'")));
    }
    let mut clusters = Vec::with_capacity(ids.len());
    for id in ids {
        clusters.push(find_by_id(client, id).await?);
    }
    Ok(clusters)
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
