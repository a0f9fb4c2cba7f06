//! The use cases behind every API: find the object, authorize, build the change, submit it, wait, list.
//!
//! APIs are wire formats over this crate: they parse a request, call one function of this crate, and render the
//! result. Rules about what a caller may do live here and in the engine's admission, never in one API alone. Actions
//! are executed by `muster-engine`, not by this crate.
//!
//! Begin reading at `service.rs` ([`Service`], which has a method for each use case), [`find`] and `authorize.rs`
//! (what every use case begins with), and [`changes`] (how a change is submitted).

pub mod access;
pub mod adoption;
pub mod apps;
mod authorize;
pub mod changes;
mod compute_templates;
mod config_sets;
mod error;
pub mod find;
mod frameworks;
mod image_templates;
pub mod jobs;
pub mod lists;
pub mod machines;
pub mod membership;
mod mutation;
mod named_write;
mod node_usage;
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
pub mod usage;
pub mod watch;
mod write_event;

pub use access::{Access, AccessTarget, Case, Verb};
pub use authorize::{AccessRule, Denied, Resource, authorize};
pub use config_sets::ConfigRequest;
pub use error::{ErrorKind, Obstacle, ServiceError};
pub use muster_engine::{Caller, Conflict, NewNode, Recipe, new_id};
pub use muster_store::commands::SignalKind;
pub use muster_store::reads::{ActionNames, Edges, OpenJob, RelatedRows};
pub use mutation::{MilestoneWait, Mutation, Submission};
pub use policies::Removed;
pub use reads::DatabaseInfo;
pub use service::Service;
pub use token_signer::TokenSigner;
pub use unobserved::UnobservedClusters;
pub use write_event::Writer;

/// The engine's ports that APIs use, and the types of their results.
pub mod ports {
    pub use muster_engine::ports::provider::{
        LogLines, LogQuery, LogText, Operation, ProviderError, StoredLog,
    };
    pub use muster_engine::ports::{answer_cache, clock, domino, frameworks, identity, machines, node_meter};
}
