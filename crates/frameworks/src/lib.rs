//! What is to be known of Ray, Dask and Spark, and nothing else is known of them anywhere.
//!
//! Everything here is pure: commands to start, requests to send, answers to read. Providers do the rest, and do it
//! alike for all of them.

mod ask;
mod contact;
mod dask;
mod endpoints;
pub mod kubernetes;
mod local;
mod ray;
mod requirement;
#[cfg(test)]
mod sample;
mod spark;

use muster_core::cluster::Framework;

pub use ask::{Ask, Method, Unreadable};
pub use contact::{Contact, Secret};
pub use endpoints::Endpoints;
pub use local::{
    Activity, Launch, Leaving, LiveWorker, LocalFramework, Names, Package, Ports, Retirement, Seat, Signal,
    Stop, Tell, Whereabouts,
};
pub use requirement::{Program, Requirement};

/// How a framework runs as plain processes, if it is known yet.
pub fn local(framework: Framework) -> Option<&'static dyn LocalFramework> {
    match framework {
        Framework::Dask => Some(&dask::Dask),
        Framework::Ray => Some(&ray::Ray),
        Framework::Spark => Some(&spark::Spark),
        Framework::Unknown(_) => None,
    }
}

/// All frameworks that run as plain processes.
pub fn all_local() -> impl Iterator<Item = &'static dyn LocalFramework> {
    Framework::ALL.iter().filter_map(|framework| local(*framework))
}
