//! Executes durable actions over one store: everything that happens over time, and the ports to what is outside.
//!
//! The engine knows no provider and no API. The service layer submits changes to it; providers implement its ports.
//!
//! The folders are layers, listed here from the ground up; imports point down only (`tests/layers.rs` checks that).
//! Start reading at `admission/submit.rs` (how a change becomes an action) or `scheduler/runner.rs` (how it is run).

// Foundation: no behaviour over time.
mod config;
mod events;
mod ids;
mod metrics;
mod notify;

pub mod ports;

pub mod action_data;

// Pure decisions: the intent of a cluster after a change, and the effect of policies.
pub mod intent;

pub mod policy;

// State that all tasks share.
mod lease;
mod liveness;

mod context;

mod supervise;

// Execution of one action.
mod run;

mod reconcile;

mod actions;

// Admission, scheduling and observation of all actions.
pub mod admission;

mod queries;
mod scheduler;
mod wait;
mod watchers;

mod start;

pub use admission::{
    Caller, ChangeRequest, Conflict, NewClusterUser, NewNode, NodeChangeRequest, Recipe, SubmitError,
};
pub use config::{Config, LocalCode};
pub use context::Engine;
pub use ids::new_id;
pub use metrics::Metrics;
pub use queries::{QueryError, UpdatePreview};
pub use start::EngineParts;
