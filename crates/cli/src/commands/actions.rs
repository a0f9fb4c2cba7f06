//! `muster actions`: what was asked of a cluster, or of all.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Action, ListActionsRequest, ListActionsResponse, ListClusterActionsRequest};

use super::{AmongFlags, NamespaceFlag, PAGE, count, pages};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::format::{self, FormatFlag};
use crate::output;

/// List the actions of a cluster, or all, oldest first
#[derive(Debug, Parser)]
pub(crate) struct Actions {
    /// Which cluster; otherwise all
    name: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlag,
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
                Some(name) => of_cluster(&mut client, &namespace.namespace, &name, &among).await?,
                None => of_all(&mut client).await?,
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

async fn of_all(client: &mut Client) -> Result<Vec<Action>, Failure> {
    pages(async |page_token| {
        let request = ListActionsRequest {
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
