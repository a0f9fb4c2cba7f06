//! The core API for existing KubeRay clients: package `proto` and `/apis/v1`.
//!
//! Requests become those of `muster.v1alpha2` and go the same way. A cluster is shown as its `RayCluster` is, also one
//! of others; one without such an object, such as a local one, as `muster.v1alpha2` shows it.

mod check;
mod cluster;
mod clusters;
mod compute_templates;
mod ray_cluster;
mod request;
