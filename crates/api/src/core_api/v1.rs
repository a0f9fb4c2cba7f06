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
