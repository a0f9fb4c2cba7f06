//! Everything that is particular to Ray, Dask and Spark: commands, HTTP requests, responses, and Kubernetes objects.
//!
//! This crate is pure: it starts no process, sends no request and watches nothing. The providers (`muster-local`,
//! `muster-kube`) and `muster-framework-client` do that, without knowing which framework they run.
//!
//! Begin reading at [`LocalFramework`] (a framework as processes of one machine, implemented in `dask.rs`, `ray.rs` and
//! `spark.rs`) and at [`kubernetes::Flavor`] (a framework as objects on Kubernetes).

mod client_shell;
mod dask;
mod endpoints;
mod head_access;
pub mod kubernetes;
mod local;
mod memory_limit;
mod ray;
mod request;
mod requirement;
#[cfg(test)]
mod sample;
mod spark;

use muster_core::cluster::Framework;

pub use client_shell::{ClientShell, client_shell};
pub use endpoints::Endpoints;
pub use head_access::{HeadAccess, Secret};
pub use local::{
    Activity, AfterRetirement, EndpointDiscovery, GracefulShutdown, HeadCommand, HeadPorts, LaunchContext,
    LiveWorker, LocalFramework, OutputFolder, ProcessSpec, PythonPackage, ShutdownSignal, TaskOutput,
    WorkerNaming, WorkerRetirement,
};
pub use memory_limit::local_memory_limit;
pub use request::{FrameworkRequest, RequestMethod, UnreadableResponse};
pub use requirement::{InstalledProgram, Requirement};

/// Returns the implementation of a framework for local processes; `None` for a framework that this version does not
/// know.
pub fn local(framework: Framework) -> Option<&'static dyn LocalFramework> {
    match framework {
        Framework::Dask => Some(&dask::Dask),
        Framework::Ray => Some(&ray::Ray),
        Framework::Spark => Some(&spark::Spark),
        Framework::Unknown(_) => None,
    }
}

/// Returns all frameworks that run as local processes.
pub fn all_local() -> impl Iterator<Item = &'static dyn LocalFramework> {
    Framework::ALL.iter().filter_map(|framework| local(*framework))
}
