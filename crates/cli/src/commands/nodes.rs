//! `muster nodes`: what a cluster consists of.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{ListNodesRequest, ListNodesResponse};

use super::{AmongFlags, NamespaceFlag, PAGE, count, pages};
use crate::connect::{Client, ServerFlags};
use crate::format::{self, FormatFlag};
use crate::output;

/// List the nodes of a cluster, the head first
#[derive(Debug, Parser)]
pub(crate) struct Nodes {
    /// Which cluster
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Nodes {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, format, server } = self;
            let mut client = server.connect().await?;
            let (framework, provider) = among.words();
            let nodes = pages(async |page_token| {
                let request = ListNodesRequest {
                    name: name.clone(),
                    namespace: namespace.namespace.clone(),
                    framework: framework.clone(),
                    provider: provider.clone(),
                    sort_by: "index".to_owned(),
                    page_size: PAGE,
                    page_token,
                    ..ListNodesRequest::default()
                };
                let call = async |client: &Client| client.clusters().list_nodes(request.clone()).await;
                let answer = client.ask(call).await?.into_inner();
                Ok((answer.nodes, answer.next_page_token))
            })
            .await?;
            let message =
                ListNodesResponse { total_size: count(nodes.len()), nodes, ..ListNodesResponse::default() };
            format::list(format.format, &message.nodes, "nodes", &message, &format!("'{name}' has no nodes"))
        })
    }
}
