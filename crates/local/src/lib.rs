//! Where nodes run on this machine.

mod apps;
pub mod attached;
mod config_sets;
pub mod environments;
mod files;
mod processes;
pub mod shim;
mod simulated;
mod sys;

pub use apps::process;
pub use processes::{Processes, Settings};
pub use simulated::{SIMULATED_NODE, Simulated};
