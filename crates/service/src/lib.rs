//! The use cases behind every API: find the object, authorize, build the change, submit it, wait, list.
//!
//! APIs are wire formats over this crate: they parse a request, call one function here, and render the result. Rules
//! about what a caller may do live here and in the engine's admission, never in one API alone.

pub mod access;
pub mod adoption;
pub mod apps;
mod authorize;
pub mod changes;
mod compute_templates;
mod config_sets;
mod error;
pub mod find;
mod image_templates;
pub mod lists;
pub mod membership;
mod mutation;
pub mod owned;
pub mod placement;
mod policies;
pub mod profiles;
mod queries;
mod reads;
pub mod receivers;
mod service;
mod shapes;
pub mod sizes;
mod token_signer;
mod unobserved;
pub mod watch;
mod write_event;

pub use access::{Access, Case, Subject, Verb};
pub use authorize::{Denied, Resource, Rule, authorize};
pub use config_sets::ConfigRequest;
pub use error::{ErrorKind, Obstacle, ServiceError};
pub use muster_engine::{Caller, Conflict, LogLines, NewNode, Recipe, new_id};
pub use muster_store::commands::SignalKind;
pub use muster_store::reads::{Belongings, Edges};
pub use mutation::{Mutation, Submission, Wait};
pub use policies::Removed;
pub use reads::DatabaseInfo;
pub use service::Service;
pub use token_signer::TokenSigner;
pub use unobserved::UnobservedClusters;
pub use write_event::Writer;

/// The engine's ports that APIs use, and the types of their results.
pub mod ports {
    pub use muster_engine::ports::provider::{LogQuery, Operation, ProviderError};
    pub use muster_engine::ports::{answer_cache, clock, domino, frameworks, identity};
}
