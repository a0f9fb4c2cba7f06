//! The chart, and Muster as it runs where the chart installs it: with the chart's rights, and with callers that
//! Kubernetes vouches for.

mod apps;
mod away;
mod chart;
mod domino;
mod expired;
mod harness;
mod identity;
mod in_cluster;
mod projects;
mod release;
mod render;
mod rights;
mod server;
