//! Where nodes run on this machine.

pub mod environments;
pub mod shim;
mod simulated;
mod sys;

pub use simulated::{SIMULATED_NODE, Simulated};
