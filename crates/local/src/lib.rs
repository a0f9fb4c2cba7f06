//! The provider `local`, which runs the nodes of clusters as processes of this machine, and the provider `simulated`,
//! whose nodes exist only as rows.
//!
//! This crate starts, observes and stops processes, finds or installs the Python environments that they run in, and
//! reads their logs. It does not decide how many nodes a cluster has or when one is replaced: that is `muster-engine`.
//! It knows no commands or protocols of Ray, Dask or Spark: those are in `muster-frameworks`.
//!
//! Start reading at [`LocalProvider`] in `processes.rs`, which implements the provider traits of the engine, and follow
//! `processes/start.rs` for the start of a node. The supervisor of each process is in [`shim`]; its module
//! documentation has a picture. [`environments`] finds and installs frameworks, and [`attached`] starts commands that
//! must not outlive the command line program. All system calls are in `sys.rs`.

pub mod attached;
mod config_sets;
pub mod environments;
mod files;
mod host_processes;
mod processes;
pub mod shim;
mod simulated;
mod sys;

pub use host_processes::find_process;
pub use processes::{LocalProvider, LocalSettings};
pub use simulated::{SIMULATED_NODE, SimulatedProvider};
