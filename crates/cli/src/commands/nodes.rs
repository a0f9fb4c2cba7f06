//! `muster nodes`: lists the nodes of a cluster.

mod watch;

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{ListNodesRequest, ListNodesResponse, Node};

use super::{ClusterFlags, PAGE, count, pages};
use crate::connect::Client;
use crate::failure::Failure;
use crate::format::{self, FormatFlag};
use crate::output;

pub(super) use watch::fitted;

/// List the nodes of a cluster, the head first
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  muster nodes fred -o wide\n  muster nodes fred --watch")]
pub(crate) struct Nodes {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Keep running and show every change until the cluster is deleted
    #[arg(short = 'w', long)]
    watch: bool,
    #[command(flatten)]
    format: FormatFlag,
}

impl Nodes {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster, watch, format } = self;
            let (mut client, cluster) = cluster.find().await?;
            if watch {
                return watch::follow(&mut client, &cluster, format.format).await;
            }
            let request = ListNodesRequest { id: cluster.id, ..ListNodesRequest::default() };
            let nodes = all(&mut client, request).await?;
            let message =
                ListNodesResponse { total_size: count(nodes.len()), nodes, ..ListNodesResponse::default() };
            format::list(
                format.format,
                &message.nodes,
                "nodes",
                &message,
                &format!("'{}' has no nodes", cluster.name),
            )
        })
    }
}

/// Lists all nodes of a cluster, the head first.
pub(crate) async fn all(client: &mut Client, cluster: ListNodesRequest) -> Result<Vec<Node>, Failure> {
    pages(async |page_token| {
        let request =
            ListNodesRequest { sort_by: "index".to_owned(), page_size: PAGE, page_token, ..cluster.clone() };
        let call = async |client: &Client| client.clusters().list_nodes(request.clone()).await;
        let answer = client.retry(call).await?.into_inner();
        Ok((answer.nodes, answer.next_page_token))
    })
    .await
}
