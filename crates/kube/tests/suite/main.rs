//! Clusters on a real API server, with the real operators.

#![expect(clippy::unwrap_used, reason = "helpers of tests may stop at what they did not expect")]

mod discovery;
mod flavors;
mod harness;
mod idle;
mod late;
mod life;
mod luck;
mod pods;
mod readiness;
mod reasons;
mod refused;
mod replicas;
