//! `muster actions`: what was asked of a cluster, or of all.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Action, ListActionsRequest, ListActionsResponse, ListClusterActionsRequest};

use super::{AmongFlags, DEFAULT_NAMESPACE, PAGE, count, pages};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::format::{self, FormatFlag};
use crate::output;

/// List the actions of a cluster, or all, oldest first
#[derive(Debug, Parser)]
pub(crate) struct Actions {
    /// Which cluster; otherwise all
    name: Option<String>,
    /// The namespace of the cluster; without a cluster, only actions of clusters in it
    #[arg(short = 'n', long, env = "MUSTER_NAMESPACE", value_name = "NS")]
    namespace: Option<String>,
    #[command(flatten)]
    among: AmongFlags,
    /// Also those that other actions made, such as one for each node
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
            let mut client = server.connect().await?;
            let mut actions = match name {
                Some(name) => {
                    let namespace = namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
                    of_cluster(&mut client, namespace, &name, &among).await?
                }
                None => of_all(&mut client, namespace.unwrap_or_default()).await?,
            };
            if !all {
                actions.retain(|action| action.parent.is_empty());
            }
            let message = ListActionsResponse {
                total_size: count(actions.len()),
                actions,
                ..ListActionsResponse::default()
            };
            format::list(format.format, &message.actions, "actions", &message, "no actions yet")
        })
    }
}

/// Those of a cluster, also of one that is gone.
async fn of_cluster(
    client: &mut Client,
    namespace: &str,
    name: &str,
    among: &AmongFlags,
) -> Result<Vec<Action>, Failure> {
    let (framework, provider) = among.words();
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
        let answer = client.ask(async |client| client.clusters().list_actions(request.clone()).await).await?;
        let answer = answer.into_inner();
        Ok((answer.actions, answer.next_page_token))
    })
    .await
}

/// Those of all clusters, or of those in a namespace.
async fn of_all(client: &mut Client, namespace: String) -> Result<Vec<Action>, Failure> {
    pages(async |page_token| {
        let request = ListActionsRequest {
            namespace: namespace.clone(),
            sort_by: "created_at".to_owned(),
            page_size: PAGE,
            page_token,
            ..ListActionsRequest::default()
        };
        let answer = client.ask(async |client| client.actions().list_actions(request.clone()).await).await?;
        let answer = answer.into_inner();
        Ok((answer.actions, answer.next_page_token))
    })
    .await
}
