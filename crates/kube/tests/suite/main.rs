//! Clusters on a real API server, with the real operators.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod discovery;
mod faults;
mod flavors;
mod harness;
mod idle;
mod late_requests;
mod lifecycle;
mod metrics;
mod pods;
mod readiness;
mod reasons;
mod refused;
mod replicas;
