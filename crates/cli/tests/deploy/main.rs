//! The chart, and Muster as the chart installs it: with the chart's rights, and callers authenticated by Kubernetes.

mod apps;
mod chart;
mod domino;
mod expired;
mod harness;
mod identity;
mod in_cluster;
#[path = "../kubernetes/machine_objects.rs"]
mod machine_objects;
mod machines;
mod projects;
mod release;
mod render;
mod rights;
mod server;
mod unreachable;
