//! What a driver does with its cluster when its command has ended. A clean-up that fails or is refused only warns.

use std::time::Duration;

use muster_core::ephemeral::AppStatus;
use muster_proto::v1alpha2::{DeleteClusterRequest, DetachAppRequest};
use tokio::time::timeout;

use super::Launcher;
use super::startup::Cluster;
use crate::commands::request_id;
use crate::connect::Client;
use crate::failure::Failure;
use crate::output::say;
use crate::wait::{Subject, WaitFlags};

/// How long a clean-up may take: within the grace period of a pod, of which the command may have had ten seconds.
const AT_MOST: Duration = Duration::from_secs(15);

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) status: AppStatus,
    pub(super) exit_code: Option<i32>,
}

impl End {
    pub(super) const fn completed(exit_code: Option<i32>) -> Self {
        Self { status: AppStatus::Completed, exit_code }
    }
}

impl Launcher {
    /// Ends the app and deletes its cluster, by the rules.
    pub(super) async fn clean_up(&mut self, cluster: &Cluster, end: End) {
        if timeout(AT_MOST, self.delete(cluster, end)).await.is_err() {
            let name = &cluster.name;
            say!(
                "warning: cluster '{name}' is not gone yet; a server goes on with that, now or once one runs"
            );
        }
    }

    async fn delete(&mut self, cluster: &Cluster, end: End) {
        let name = &cluster.name;
        say!("Deleting cluster '{name}'");
        if !cluster.ephemeral {
            say!("cluster is not ephemeral");
            say!("cluster not deleted '{name}'");
            // The next driver of an app that goes on finds its cluster by this.
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
        let deadline = WaitFlags::patient().deadline();
        match deadline.submit(&mut self.client, submit).await {
            Ok((_, action)) => self.wait_for_deletion(cluster, action).await,
            Err(failure) => {
                say!("{}", failure.what);
                say!("cluster not deleted '{name}'");
            }
        }
    }

    async fn wait_for_deletion(&mut self, cluster: &Cluster, action_id: String) {
        let subject = Subject {
            namespace: self.namespace.clone(),
            name: cluster.name.clone(),
            cluster_id: cluster.id.clone(),
            action_id,
        };
        match subject.reached_quietly(&mut self.client).await {
            Ok(()) => say!("cluster \"{}\" deleted", cluster.name),
            Err(failure) => say!("warning: {failure}"),
        }
    }

    async fn detach(&mut self, cluster: &Cluster) {
        let request = DetachAppRequest {
            namespace: self.namespace.clone(),
            cluster: cluster.name.clone(),
            app: self.driver.given.clone(),
            ..DetachAppRequest::default()
        };
        let detached = self.client.ask(async |client| client.apps().detach_app(request.clone()).await).await;
        if let Err(failure) = detached {
            say!("warning: the app is still attached to cluster '{}': {failure}", cluster.name);
        }
    }

    /// Deletes what this launcher has made and cannot use.
    pub(super) async fn remove(&mut self, id: &str) {
        let request = DeleteClusterRequest {
            id: id.to_owned(),
            wait_for: "accepted".to_owned(),
            request_id: request_id(),
            ..DeleteClusterRequest::default()
        };
        let removed =
            self.client.ask(async |client| client.clusters().delete_cluster(request.clone()).await).await;
        if let Err(failure) = removed.map(drop) {
            say!("warning: what was made could not be deleted: {failure}");
        }
    }

    /// Cleans up after a signal that came while the cluster was being found or made.
    pub(super) async fn clean_up_by_name(&mut self, shared: bool) {
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
        let delete = self.client.ask(async |client| client.clusters().delete_cluster(request.clone()).await);
        if let Ok(Err(failure)) =
            timeout(AT_MOST, delete).await.map(|answer| answer.map(drop).map_err(|why: Failure| why))
        {
            say!("{}", failure.what);
            say!("cluster not deleted '{}'", self.driver.cluster);
        }
    }
}
