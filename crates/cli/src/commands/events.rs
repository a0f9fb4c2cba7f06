//! `muster events`: what happened to a cluster.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{ListEventsRequest, ListEventsResponse};

use super::{AmongFlags, NamespaceFlag, PAGE, count, pages};
use crate::connect::{Client, ServerFlags};
use crate::format::{self, FormatFlag};
use crate::output;

/// List what happened to a cluster, oldest first
#[derive(Debug, Parser)]
pub(crate) struct Events {
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

impl Events {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, format, server } = self;
            let mut client = server.connect().await?;
            let (framework, provider) = among.words();
            let events = pages(async |page_token| {
                let request = ListEventsRequest {
                    name: name.clone(),
                    namespace: namespace.namespace.clone(),
                    framework: framework.clone(),
                    provider: provider.clone(),
                    sort_by: "at".to_owned(),
                    page_size: PAGE,
                    page_token,
                    ..ListEventsRequest::default()
                };
                let call = async |client: &Client| client.clusters().list_events(request.clone()).await;
                let answer = client.ask(call).await?.into_inner();
                Ok((answer.events, answer.next_page_token))
            })
            .await?;
            let message = ListEventsResponse {
                total_size: count(events.len()),
                events,
                ..ListEventsResponse::default()
            };
            format::list(
                format.format,
                &message.events,
                "events",
                &message,
                &format!("nothing happened to '{name}' yet"),
            )
        })
    }
}
