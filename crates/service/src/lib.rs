//! The use cases behind every API: find the object, authorize, build the change, submit it, wait, list.
//!
//! APIs are wire formats over this crate: they parse a request, call one function here, and render the result. Rules
//! about what a caller may do live here and in the engine's admission, never in one API alone.

pub mod access;
mod authorize;

pub use access::{Access, Case, Subject, Verb};
pub use authorize::{Denied, Resource, Rule, authorize};
