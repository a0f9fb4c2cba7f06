//! Machines on a real API server, scheduler and controller-manager, with nodes that kwok simulates.

#![expect(clippy::unwrap_used, reason = "helpers of tests may stop at what they did not expect")]

mod certificates;
mod definitions;
mod faults;
mod harness;
mod life;
mod nodes;
mod owners;
mod replicas;
mod takeover;
