//! `muster actions`: lists the actions of a cluster, or of all clusters.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Action, ListActionsRequest, ListActionsResponse, ListClusterActionsRequest};

use super::{AmongFlags, NamespaceFlag, PAGE, count, pages};
use crate::complete;
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, FormatFlag};
use crate::output;

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
            let message = ListActionsResponse {
                total_size: count(actions.len()),
                actions: actions.clone(),
                ..ListActionsResponse::default()
            };
            format::list(format.format, &actions, "actions", &message, "no actions yet")
        })
    }
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
