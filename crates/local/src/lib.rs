//! Where nodes run on this machine.

pub mod environments;
mod simulated;

pub use simulated::{SIMULATED_NODE, Simulated};
