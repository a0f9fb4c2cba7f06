//! The ports: what the engine needs of the world outside, as traits that others implement.

pub mod clock;
pub mod frameworks;
pub mod identity;
pub(crate) mod instrumented;
pub mod probe;
pub mod provider;
pub mod webhook;
