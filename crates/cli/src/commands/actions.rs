//! `muster actions`: lists the actions of a cluster, or of all clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{
    Action, ListActionsRequest, ListActionsResponse, ListAllClustersRequest, ListClusterActionsRequest,
    ListNodesRequest,
};

use super::{AmongFlags, NamespaceFlag, PAGE, count, find_by_id, nodes, pages};
use crate::complete;
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, Format, FormatFlag};
use crate::output;
use crate::table::ActionLine;

/// List the actions of a cluster, or of all clusters, oldest first
#[derive(Debug, Parser)]
pub(crate) struct Actions {
    /// Name of the cluster [default: all clusters]
    #[arg(add = complete::clusters())]
    name: Option<String>,
    /// The namespace of the cluster; without a cluster, list the actions of this namespace
    #[arg(short = 'n', long, env = "MUSTER_NAMESPACE", value_name = "NS", add = complete::namespaces())]
    namespace: Option<String>,
    #[command(flatten)]
    among: AmongFlags,
    /// Include actions that were started by other actions, such as those of single nodes
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Actions {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, all, format, server } = self;
            if name.is_none() && among.are_given() {
                let what = "--framework and --provider need the name of a cluster";
                return Err(Failure::new(Exit::Usage, what).into());
            }
            let mut client = server.connect_to_existing().await?;
            let mut actions = match name {
                Some(name) => {
                    let namespace = NamespaceFlag { namespace }.resolve(&mut client).await?;
                    list_of_cluster(&mut client, &namespace, &name, &among).await?
                }
                None => list_all(&mut client, namespace.unwrap_or_default()).await?,
            };
            if !all {
                actions.retain(|action| action.parent.is_empty());
            }
            let format = format.format;
            let names = match format {
                Format::Table | Format::Wide => names(&mut client, &actions).await?,
                Format::Json | Format::Yaml | Format::Name => BTreeMap::new(),
            };
            let lines: Vec<ActionLine> =
                actions.iter().map(|action| ActionLine::new(action.clone(), &names)).collect();
            let message = ListActionsResponse {
                total_size: count(actions.len()),
                actions,
                ..ListActionsResponse::default()
            };
            format::list(format, &lines, "actions", &message, "no actions yet")
        })
    }
}

/// Returns the names of the clusters and nodes that these actions changed, by their ids. The names of nodes that are gone
/// are not known.
async fn names(client: &mut Client, actions: &[Action]) -> Result<BTreeMap<String, String>, Failure> {
    let clusters: BTreeSet<&str> = actions.iter().map(|action| action.cluster_id.as_str()).collect();
    let of_nodes: BTreeSet<&str> = actions
        .iter()
        .filter(|action| action.target != action.cluster_id)
        .map(|action| action.cluster_id.as_str())
        .collect();
    let mut names = BTreeMap::new();
    if clusters.len() > 1 {
        let all = pages(async |page_token| {
            let request = ListAllClustersRequest {
                deleted: "include".to_owned(),
                page_size: PAGE,
                page_token,
                ..ListAllClustersRequest::default()
            };
            let call = async |client: &Client| client.clusters().list_all_clusters(request.clone()).await;
            let answer = client.retry(call).await?.into_inner();
            Ok((answer.clusters, answer.next_page_token))
        });
        names.extend(all.await?.into_iter().map(|cluster| (cluster.id, cluster.name)));
    } else if let Some(id) = clusters.first().filter(|id| !id.is_empty()) {
        // The record of a cluster may have been removed.
        let found = find_by_id(client, id).await;
        names.extend(found.into_iter().map(|cluster| (cluster.id, cluster.name)));
    }
    for id in of_nodes.into_iter().filter(|id| !id.is_empty()) {
        let request = ListNodesRequest { id: id.to_owned(), ..ListNodesRequest::default() };
        let found = nodes::all(client, request).await.unwrap_or_default();
        names.extend(found.into_iter().map(|node| (node.id, node.name)));
    }
    Ok(names)
}

/// Lists the actions of a cluster, which may be deleted.
async fn list_of_cluster(
    client: &mut Client,
    namespace: &str,
    name: &str,
    among: &AmongFlags,
) -> Result<Vec<Action>, Failure> {
    let (framework, provider) = among.request_fields();
    pages(async |page_token| {
        let request = ListClusterActionsRequest {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            framework: framework.clone(),
            provider: provider.clone(),
            sort_by: "created_at".to_owned(),
            page_size: PAGE,
            page_token,
            ..ListClusterActionsRequest::default()
        };
        let answer =
            client.retry(async |client| client.clusters().list_actions(request.clone()).await).await?;
        let answer = answer.into_inner();
        Ok((answer.actions, answer.next_page_token))
    })
    .await
}

/// Lists the actions of all clusters, or of one namespace.
async fn list_all(client: &mut Client, namespace: String) -> Result<Vec<Action>, Failure> {
    pages(async |page_token| {
        let request = ListActionsRequest {
            namespace: namespace.clone(),
            sort_by: "created_at".to_owned(),
            page_size: PAGE,
            page_token,
            ..ListActionsRequest::default()
        };
        let answer =
            client.retry(async |client| client.actions().list_actions(request.clone()).await).await?;
        let answer = answer.into_inner();
        Ok((answer.actions, answer.next_page_token))
    })
    .await
}
