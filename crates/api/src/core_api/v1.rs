//! The core API for existing KubeRay clients: package `proto` and `/apis/v1`.
//!
//! Requests are converted to those of `muster.v1alpha2` and handled in the same way. A cluster is shown from its
//! `RayCluster` object; a cluster without such an object, such as a local one, from its row.

mod check;
mod cluster;
mod clusters;
mod compute_templates;
mod ray_cluster;
mod request;

/// Converts a `RayCluster` object of any creator to a cluster of `muster.v1alpha2`.
pub(super) fn cluster_of_object(object: &serde_json::Value) -> muster_proto::v1alpha2::Cluster {
    request::cluster(ray_cluster::cluster(object))
}
