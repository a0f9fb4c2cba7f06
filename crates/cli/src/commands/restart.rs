//! `muster restart`: restarts the head and waits until the cluster is usable again.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::RestartHeadRequest;

use super::{ChangeFlags, request_id};
use crate::connect::Client;
use crate::output;

/// Restart the head of a cluster
#[derive(Debug, Parser)]
pub(crate) struct Restart {
    /// Name of the cluster
    #[arg(add = crate::complete::clusters())]
    name: String,
    #[command(flatten)]
    flags: ChangeFlags,
}

impl Restart {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, flags } = self;
            let found = flags.find(&name).await?;
            let request = RestartHeadRequest {
                id: found.cluster.id.clone(),
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..RestartHeadRequest::default()
            };
            let change = async |client: &Client| client.clusters().restart_head(request.clone()).await;
            found.carry_out(change).await
        })
    }
}
