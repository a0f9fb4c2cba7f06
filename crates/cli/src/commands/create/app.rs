//! Flags about the app that a cluster is created for.

use clap::Parser;
use muster_proto::v1alpha2::{Cluster, CreateClusterRequest};
use tonic::{Response, Status};

use crate::connect::Client;
use crate::output::message;

/// Flags about the app that a cluster is created for.
#[derive(Debug, Parser)]
pub(super) struct AppFlags {
    /// The app that uses the cluster: a name, kind/name such as deploy/bob, or the name of a pod
    #[arg(long, value_name = "APP")]
    pub(super) app: Option<String>,
    /// Delete the cluster when that app is gone
    #[arg(short = 'e', long)]
    pub(super) ephemeral: bool,
    /// Keep an ephemeral cluster when the app's Deployment is rolled out again
    #[arg(long, requires = "ephemeral")]
    pub(super) across_rollouts: bool,
}

impl AppFlags {
    /// Adds the app to a request.
    pub(super) fn add_to(&self, mut request: CreateClusterRequest) -> CreateClusterRequest {
        if let Some(cluster) = &mut request.cluster {
            cluster.app = self.app.clone().unwrap_or_default();
            cluster.ephemeral = self.ephemeral;
        }
        request
    }

    /// Sends a request and prints whether the cluster is ephemeral or shared.
    pub(super) async fn create(
        &self,
        client: &Client,
        request: &CreateClusterRequest,
    ) -> Result<Response<Cluster>, Status> {
        let created = client.clusters().create_cluster(request.clone()).await?;
        let Cluster { name, ephemeral, .. } = created.get_ref();
        if self.ephemeral && !ephemeral {
            message!("Could not create an ephemeral cluster, created a shared cluster instead");
        }
        if self.app.is_some() {
            message!("{} cluster {name} created", if *ephemeral { "ephemeral" } else { "shared" });
        }
        Ok(created)
    }
}
