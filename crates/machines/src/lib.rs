//! Machines: named machine types whose capacity is held by reservations until a guest takes a slot.

pub mod amounts;
pub mod keys;
pub mod types;
