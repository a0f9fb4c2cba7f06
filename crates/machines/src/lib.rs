//! Machines: named machine types whose capacity is held by reservations until a guest takes a slot.
//!
//! [`decide`] is pure: every function takes what was observed and returns a list of writes. Watches, writes, the webhook,
//! the Lease and the certificate are around it, in [`run`].

pub mod amounts;
pub mod decide;
pub mod keys;
pub mod placement;
pub mod run;
pub mod types;
