//! Turns changes into actions: validation, tenancy, conflicts, capacity, quota, cooldown, adoption.

mod abandon;
pub mod adopt;
pub mod apps;
pub(crate) mod capacity;
mod conflict;
mod cooldown;
pub(crate) mod delegated;
pub(crate) mod images;
mod local_code;
mod nodes;
mod recipe;
mod references;
mod request;
pub(crate) mod submit;

pub use conflict::Conflict;
pub use nodes::NewNode;
pub use request::{Caller, ChangeRequest, NewClusterUser, NodeChangeRequest, Recipe, SubmitError};
