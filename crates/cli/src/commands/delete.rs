//! `muster delete`: a cluster, and wait until nothing of it is left.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Cluster, DeleteClusterRequest};

use super::{AmongFlags, NamespaceFlag, find, request_id};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::output;
use crate::wait::{Deadline, Subject, WaitFlags};

/// Delete a cluster
#[derive(Debug, Parser)]
pub(crate) struct Delete {
    /// Which cluster
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    /// Forget it even if nobody serves its provider any more
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    server: ServerFlags,
}

impl Delete {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, force, wait, server } = self;
            let mut client = server.connect().await?;
            let deadline = wait.deadline();
            let cluster = find(&mut client, &namespace.namespace, &name, &among).await?;
            let subject = submit(&mut client, &cluster, force, deadline).await?;
            if wait.no_wait {
                subject.tell_accepted();
                return Ok(ExitCode::SUCCESS);
            }
            subject.reached(&mut client, deadline).await?;
            Ok(output::print(&format!("{name} is deleted\n")))
        })
    }
}

/// Asks for the deletion of just this cluster, whatever has its name by then.
pub(super) async fn submit(
    client: &mut Client,
    cluster: &Cluster,
    force: bool,
    deadline: Deadline,
) -> Result<Subject, Failure> {
    let request = DeleteClusterRequest {
        id: cluster.id.clone(),
        wait_for: "accepted".to_owned(),
        request_id: request_id(),
        force,
        ..DeleteClusterRequest::default()
    };
    let submit = async |client: &Client| client.clusters().delete_cluster(request.clone()).await;
    let (_, action) = deadline.submit(client, submit).await?;
    Ok(Subject::new(cluster, action))
}
