//! `muster restart`: a new head, and wait until the cluster works again.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::RestartHeadRequest;

use super::get::described;
use super::{NamespaceFlag, find, finish, request_id};
use crate::connect::{Client, ServerFlags};
use crate::format::{self, FormatFlag};
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
    wait: WaitFlags,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Restart {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, wait, format, server } = self;
            let mut client = server.connect().await?;
            let deadline = wait.deadline();
            let cluster = find(&mut client, &namespace.namespace, &name).await?;
            let request = RestartHeadRequest {
                id: cluster.id,
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..RestartHeadRequest::default()
            };
            let submit = async |client: &Client| client.clusters().restart_head(request.clone()).await;
            let (cluster, action) = deadline.submit(&mut client, submit).await?;
            let cluster = finish(&mut client, cluster, action, wait.no_wait, deadline).await?;
            format::one(format.format, &cluster, |wide| described(&cluster, wide))
        })
    }
}
