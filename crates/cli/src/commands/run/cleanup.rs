//! Deletes or releases the cluster when the command has ended. Failures and refusals only print warnings.

use std::time::Duration;

use muster_core::ephemeral::AppStatus;
use muster_proto::v1alpha2::{DeleteClusterRequest, DetachAppRequest};
use tokio::time::timeout;

use super::Launcher;
use super::startup::DriverCluster;
use crate::commands::request_id;
use crate::connect::Client;
use crate::failure::Exit;
use crate::output::message;
use crate::wait::{AwaitedAction, WaitFlags};

/// Time limit of the clean-up. A pod has 30 s grace, of which the command may have used ten.
const CLEANUP_LIMIT: Duration = Duration::from_secs(15);

/// The end of the command, as it is reported to the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportedEnd {
    pub(super) status: AppStatus,
    pub(super) exit_code: Option<i32>,
}

impl ReportedEnd {
    pub(super) const fn completed(exit_code: Option<i32>) -> Self {
        Self { status: AppStatus::Completed, exit_code }
    }
}

/// The answer of the server to a clean-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CleanUp {
    /// The server deletes the cluster, or the rules do not allow it.
    Answered,
    /// The server did not answer, or could not decide.
    Unanswered,
}

impl Launcher {
    /// Ends the app and deletes its cluster if the rules for drivers allow it.
    pub(super) async fn clean_up(&mut self, cluster: &DriverCluster, end: ReportedEnd) -> CleanUp {
        let mut progress = CleanUp::Unanswered;
        let in_time = timeout(CLEANUP_LIMIT, self.delete(cluster, end, &mut progress)).await.is_ok();
        let name = &cluster.name;
        match progress {
            CleanUp::Answered if !in_time => {
                message!("warning: cluster '{name}' is not deleted yet; the server continues the deletion");
            }
            CleanUp::Unanswered => {
                message!(
                    "warning: cluster '{name}' is not deleted: the server deletes it once its app is gone"
                );
            }
            CleanUp::Answered => {}
        }
        progress
    }

    async fn delete(&mut self, cluster: &DriverCluster, end: ReportedEnd, progress: &mut CleanUp) {
        let name = &cluster.name;
        message!("Deleting cluster '{name}'");
        if !cluster.ephemeral {
            message!("cluster is not ephemeral");
            message!("cluster not deleted '{name}'");
            *progress = CleanUp::Answered;
            // Other apps stay attached: their next driver finds the cluster that way.
            if self.driver.is_command() {
                self.detach(cluster).await;
            }
            self.end_app().await;
            return;
        }
        self.end_app().await;
        let request = DeleteClusterRequest {
            id: cluster.id.clone(),
            wait_for: "accepted".to_owned(),
            request_id: request_id(),
            app: self.driver.given.clone(),
            app_status: end.status.as_str().to_owned(),
            exit_code: end.exit_code,
            ..DeleteClusterRequest::default()
        };
        let submit = async |client: &Client| client.clusters().delete_cluster(request.clone()).await;
        let submitted = WaitFlags::without_limit().deadline().submit(&mut self.client, submit).await;
        if !submitted.as_ref().is_err_and(|failure| failure.exit == Exit::Failed) {
            *progress = CleanUp::Answered;
        }
        match submitted {
            Ok((_, action)) => self.wait_for_deletion(cluster, action).await,
            // Kubernetes' garbage collector deleted the cluster together with its app.
            Err(failure) if failure.exit == Exit::NotFound => {
                message!("cluster \"{name}\" deleted: it was gone already");
            }
            Err(failure) => {
                message!("{}", failure.what);
                message!("cluster not deleted '{name}'");
            }
        }
    }

    async fn wait_for_deletion(&mut self, cluster: &DriverCluster, action_id: String) {
        let subject = AwaitedAction {
            namespace: self.namespace.clone(),
            name: cluster.name.clone(),
            cluster_id: cluster.id.clone(),
            action_id,
        };
        match subject.wait_silently(&mut self.client).await {
            Ok(()) => message!("cluster \"{}\" deleted", cluster.name),
            Err(failure) => message!("warning: {failure}"),
        }
    }

    async fn detach(&mut self, cluster: &DriverCluster) {
        let request = DetachAppRequest {
            namespace: self.namespace.clone(),
            cluster: cluster.name.clone(),
            app: self.driver.given.clone(),
            ..DetachAppRequest::default()
        };
        let detached =
            self.client.retry(async |client| client.apps().detach_app(request.clone()).await).await;
        // An app that the server does not know is not attached.
        if let Err(failure) = detached
            && failure.exit != Exit::NotFound
        {
            message!("warning: the app is still attached to cluster '{}': {failure}", cluster.name);
        }
    }

    /// Deletes a cluster that this launcher created and cannot use.
    pub(super) async fn remove(&mut self, id: &str) {
        let request = DeleteClusterRequest {
            id: id.to_owned(),
            wait_for: "accepted".to_owned(),
            request_id: request_id(),
            ..DeleteClusterRequest::default()
        };
        let removed =
            self.client.retry(async |client| client.clusters().delete_cluster(request.clone()).await).await;
        if let Err(failure) = removed.map(drop) {
            message!("warning: could not delete the new cluster: {failure}");
        }
    }

    /// Cleans up after a signal that arrived while the cluster was being found or created.
    pub(super) async fn clean_up_by_name(&mut self, shared: bool) {
        if timeout(CLEANUP_LIMIT, self.delete_by_name(shared)).await.is_err() {
            let name = &self.driver.cluster;
            let seconds = CLEANUP_LIMIT.as_secs();
            message!(
                "warning: the server has not answered within {seconds} s: check with `muster get {name}` if the cluster \
                 exists"
            );
        }
    }

    async fn delete_by_name(&mut self, shared: bool) {
        self.end_app().await;
        if shared {
            return;
        }
        let request = DeleteClusterRequest {
            name: self.driver.cluster.clone(),
            namespace: self.namespace.clone(),
            wait_for: "accepted".to_owned(),
            request_id: request_id(),
            app: self.driver.given.clone(),
            app_status: AppStatus::Terminated.as_str().to_owned(),
            ..DeleteClusterRequest::default()
        };
        let deleted =
            self.client.retry(async |client| client.clusters().delete_cluster(request.clone()).await).await;
        match deleted {
            Err(failure) if failure.exit != Exit::NotFound => {
                message!("{}", failure.what);
                message!("cluster not deleted '{}'", self.driver.cluster);
            }
            // It is being deleted, or nothing was created yet.
            Ok(_) | Err(_) => {}
        }
    }
}
