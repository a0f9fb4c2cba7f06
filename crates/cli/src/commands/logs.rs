//! `muster logs`: what a node wrote.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::GetLogsRequest;

use super::{AmongFlags, NamespaceFlag};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::output;

/// Print the log of a node
#[derive(Debug, Parser)]
pub(crate) struct Logs {
    /// Which cluster
    name: String,
    /// The name or id of the node; otherwise the head
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Go on with what is added
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only so many of the last lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    tail: Option<i32>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    #[command(flatten)]
    server: ServerFlags,
}

impl Logs {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, node, follow, tail, namespace, among, server } = self;
            let mut client = server.connect().await?;
            let (framework, provider) = among.words();
            let request = GetLogsRequest {
                name,
                namespace: namespace.namespace,
                framework,
                provider,
                node: node.unwrap_or_default(),
                follow,
                tail,
                ..GetLogsRequest::default()
            };
            let call = async |client: &Client| client.clusters().get_logs(request.clone()).await;
            let mut log = client.ask(call).await?.into_inner();
            while let Some(chunk) = log.message().await.map_err(Failure::from)? {
                if output::print(&chunk.text) != ExitCode::SUCCESS {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
