//! The I/O of the machines part of a server: watches, the webhook, and the leader's controller, around pure decisions.

mod apply;
mod cache;
mod certificate;
mod controller;
mod definitions;
#[cfg(test)]
mod fake;
mod leader;
mod live;
mod metrics;
mod namespace;
mod observe;
mod owners;
mod register;
mod report;
mod serve;
mod settings;
mod webhook;
mod world;

pub use leader::LeaseTimes;
pub use metrics::MachineMetrics;
pub use serve::Machines;
pub use settings::{CertificateLives, MachinesSettings, WallClock};

/// A client of an API server that does not exist.
#[cfg(test)]
fn unreachable_client() -> kube::Client {
    client_at("http://127.0.0.1:1")
}

#[cfg(test)]
fn client_at(address: &str) -> kube::Client {
    let address = address.parse().expect("an address");
    kube::Client::try_from(kube::Config::new(address)).expect("a client")
}
