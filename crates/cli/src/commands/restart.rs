//! `muster restart`: a new head, and wait until the cluster works again.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::RestartHeadRequest;

use super::{AmongFlags, NamespaceFlag, carry_out, find, request_id};
use crate::connect::{Client, ServerFlags};
use crate::format::FormatFlag;
use crate::output;
use crate::wait::WaitFlags;

/// Restart the head of a cluster
#[derive(Debug, Parser)]
pub(crate) struct Restart {
    /// Which cluster
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Restart {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, wait, format, server } = self;
            let mut client = server.connect().await?;
            let deadline = wait.deadline();
            let cluster = find(&mut client, &namespace.namespace, &name, &among).await?;
            let request = RestartHeadRequest {
                id: cluster.id,
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..RestartHeadRequest::default()
            };
            let change = async |client: &Client| client.clusters().restart_head(request.clone()).await;
            carry_out(&mut client, change, wait.no_wait, deadline, &format).await
        })
    }
}
