//! Machines: named machine types whose capacity is held by reservations until a guest takes a slot.
//!
//! What stands here decides purely: every function takes what was observed and returns a list of writes. Nothing reads
//! a clock, does I/O or waits.

pub mod amounts;
pub mod decide;
pub mod keys;
pub mod placement;
pub mod types;
