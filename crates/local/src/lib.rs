//! Where nodes run on this machine.

mod simulated;

pub use simulated::{SIMULATED_NODE, Simulated};
