//! `muster delete`: a cluster, and wait until nothing of it is left.

use std::process::ExitCode;

use clap::Parser;
use muster_core::ephemeral::AppStatus;
use muster_proto::v1alpha2::{Cluster, DeleteClusterRequest};

use super::{AmongFlags, NamespaceFlag, find, request_id};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
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
    #[arg(long, conflicts_with = "app")]
    force: bool,
    /// Delete it only if it is an ephemeral cluster of this app, by the rules for the end of a driver
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// How the app's driver ended: completed or terminated
    #[arg(long, value_name = "STATUS")]
    app_status: Option<String>,
    /// The exit status of the driver's command
    #[arg(long, value_name = "N", allow_negative_numbers = true, requires = "app")]
    exit_code: Option<i32>,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    server: ServerFlags,
}

impl Delete {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, force, app, app_status, exit_code, wait, server } = self;
            let driver = DriverEnd::of(app, app_status, exit_code)?;
            let mut client = server.connect().await?;
            let deadline = wait.deadline();
            let cluster = find(&mut client, &namespace.namespace, &name, &among).await?;
            let submitted = submit(&mut client, &cluster, force, driver.as_ref(), deadline).await;
            let subject = match submitted {
                Err(failure) if driver.is_some() && failure.exit == Exit::Refused => {
                    output::print(&format!("{}\n", failure.what));
                    return Err(Failure::new(Exit::Refused, format!("cluster not deleted '{name}'")).into());
                }
                submitted => submitted?,
            };
            if wait.no_wait {
                subject.tell_accepted();
                return Ok(ExitCode::SUCCESS);
            }
            subject.reached(&mut client, deadline).await?;
            Ok(output::print(&format!("cluster \"{name}\" deleted\n")))
        })
    }
}

/// How the driver of an app ended.
#[derive(Debug, Clone, Default)]
pub(super) struct DriverEnd {
    app: String,
    status: String,
    exit_code: Option<i32>,
}

impl DriverEnd {
    fn of(
        app: Option<String>,
        status: Option<String>,
        exit_code: Option<i32>,
    ) -> Result<Option<Self>, Failure> {
        match (app, status) {
            (None, None) => Ok(None),
            (Some(app), Some(status)) => {
                if status.parse::<AppStatus>().is_err() {
                    let what = "INVALID app-status value, only completed|terminated allowed";
                    return Err(Failure::new(Exit::Usage, what));
                }
                Ok(Some(Self { app, status, exit_code }))
            }
            _ => Err(Failure::new(Exit::Usage, "Both --app and --app-status must be set")),
        }
    }
}

/// Asks for the deletion of just this cluster, whatever has its name by then.
pub(super) async fn submit(
    client: &mut Client,
    cluster: &Cluster,
    force: bool,
    driver: Option<&DriverEnd>,
    deadline: Deadline,
) -> Result<Subject, Failure> {
    let driver = driver.cloned().unwrap_or_default();
    let request = DeleteClusterRequest {
        id: cluster.id.clone(),
        wait_for: "accepted".to_owned(),
        request_id: request_id(),
        force,
        app: driver.app,
        app_status: driver.status,
        exit_code: driver.exit_code,
        ..DeleteClusterRequest::default()
    };
    let submit = async |client: &Client| client.clusters().delete_cluster(request.clone()).await;
    let (_, action) = deadline.submit(client, submit).await?;
    Ok(Subject::new(cluster, action))
}
